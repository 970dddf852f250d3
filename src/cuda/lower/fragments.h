// SPDX-License-Identifier: Apache-2.0
// What a program looks like on the fragments of the epilogue driver.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "call/call.h"
#include "cuda/plan/plan.h"

namespace coda::cuda {

device::Type device_type(DType type);
device::Reduce device_reduce(ir::ReduceOp op);

/// Of columns that are no vector of constants: how wide they are beside the tile.
device::Width width_of(const ir::Columns& columns);

/// A size that is known when a program is compiled.
int known_size(const Instance& instance, const ir::Size& size);

/// What a load that is narrower than the tile becomes; nothing where the driver has no port for it.
std::optional<device::Port> input_port(const Instance& instance, const ir::Input& input);

/// The values that the kernel itself evaluates: what tile outputs and complete reductions need.
std::vector<ir::ValueId> tile_nodes(const ir::Program& program);

/// Whether `id` is a reduction over groups of a row's columns that the kernel finishes itself.
bool in_tile_reduction(const ir::Program& program, ir::ValueId id);

/// `id` and what it is computed from, without what lies behind reductions.
void collect(const ir::Program& program, ir::ValueId id, std::set<ir::ValueId>& nodes);

/// Offset of the columns that a node pairs; 0 for other nodes.
int pair_offset(const Instance& instance, const ir::Node& node);

}  // namespace coda::cuda

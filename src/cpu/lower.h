// SPDX-License-Identifier: Apache-2.0
// From the IR to tapes for one call.
#pragma once

#include "call/call.h"
#include "cpu/grid.h"
#include "cpu/tape.h"

namespace coda::cpu {

struct Lowered {
  Tape main;                 // the outputs that are tiles, and the reductions
  std::vector<Tape> finish;  // one for each other output, run when the reductions are complete
  std::vector<int> finish_outputs;  // its output
  std::vector<Reduction> reductions;
  std::vector<Completed> completed;
};

/// Whether an output lies on the very memory of an input: then every load must come before every
/// store.
bool in_place(const BoundCall& call);

/// `program` has each distinct node once (ir::eliminate). Offsets of reductions are left to the
/// caller. `late_stores`: put stores after all loads.
Lowered lower(const ir::Program& program, const Instance& instance, const BoundCall& call,
              const Grid& grid, const Kernels& kernels, bool late_stores);

/// The extent of dims in a call.
Extent extent_of(const ir::Dims& dims, std::span<const int64_t> symbols);

}  // namespace coda::cpu

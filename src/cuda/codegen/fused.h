// SPDX-License-Identifier: Apache-2.0
// A program on the epilogue of the Hopper mainloop: the port table and `apply` of a generated
// kernel, and the passes that join the partials of its reductions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/codegen/pointwise.h"
#include "cuda/plan/plan.h"

namespace coda::cuda {

/// Where a port's argument comes from; exactly one is set.
struct FusedPort {
  device::Port port;
  int input = -1;
  int output = -1;
  ir::ValueId reduction = -1;  // a partial in the workspace
};

struct Fused {
  std::string text;  // the program type and its kernel, called NAME
  std::vector<FusedPort> ports;
  Pointwise finish;  // passes over the partials; empty where nothing is left to do
};

/// Why the program cannot run on the mainloop's epilogue at any configuration, or nothing.
std::optional<std::string> fused_problem(const Instance& instance);

/// Offset of the columns that the program pairs (Config::pair), and the columns that must lie in
/// one chunk.
int pair_of(const Instance& instance);
int chunk_multiple(const Instance& instance);

/// The port table alone, which is what a configuration is chosen by. Requires !fused_problem().
std::vector<FusedPort> fused_ports(const Instance& instance);

/// Generates for one configuration; chunk_cols is a multiple of chunk_multiple(), pair (but for
/// kNarrow, which is a choice) and passes are set here. seams[i], where given, says which operand's
/// parts port i is cut by.
Fused generate_fused(const Instance& instance, device::Config config, const std::string& name,
                     const std::vector<device::Seams>& seams = {});

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// The text of a fused kernel: the port table and `apply` of a program type, and the passes that
// join the partials of its reductions.
#pragma once

#include <string>
#include <vector>

#include "cuda/codegen/pointwise.h"
#include "cuda/lower/fused.h"

namespace coda::cuda {

struct Fused {
  std::string text;  // the program type and its kernel, called NAME
  std::vector<FusedPort> ports;
  Pointwise finish;  // passes over the partials; empty where nothing is left to do
};

/// Generates for one configuration; chunk_cols is a multiple of chunk_multiple(), pair (but for
/// kNarrow, which is a choice) and passes are set here. seams[i], where given, says which operand's
/// parts port i is cut by.
Fused generate_fused(const Instance& instance, device::Config config, const std::string& name,
                     const std::vector<device::Seams>& seams = {});

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Random valid programs over all five families, for tests that hold one way of running a program
// against another. Values stay tame (bounded, away from singularities), so that error bounds stay
// meaningful.
#pragma once

#include <cstdint>

#include "ir/program.h"

namespace coda::check {

struct GeneratorOptions {
  int steps = 14;             // operations tried in the tile
  int complete_steps = 4;     // operations tried on finished reductions
  bool integers = true;       // integer tensors, indices, masks
  bool narrow_floats = true;  // fp8, bf16 and f16 besides T and f32
};

/// The program of a seed: verified, without dead nodes, with at least one output.
ir::Program random_program(uint64_t seed, const GeneratorOptions& options = {});

}  // namespace coda::check

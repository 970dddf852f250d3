// SPDX-License-Identifier: Apache-2.0
// What the tests of the check engine share.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "check/check.h"
#include "check/draw.h"
#include "ir/program.h"

namespace coda::check {

/// Number of random programs: many in the nightly run (CODA_EXHAUSTIVE=1), few otherwise.
inline uint64_t seeds(uint64_t few, uint64_t many) {
  const char* text = std::getenv("CODA_EXHAUSTIVE");
  return text != nullptr && std::string(text) == "1" ? many : few;
}

inline Program wrap(const ir::Program& program) {
  return Program(std::make_shared<const ir::Program>(program));
}

/// A shape and type for a random program, N as it allows.
inline Case random_case(const ir::Program& program, uint64_t seed) {
  static constexpr int64_t kM[] = {1, 2, 5, 31, 33, 70, 130, 0};
  static constexpr int64_t kN[] = {1, 7, 40, 97, 130, 300};
  static constexpr int64_t kK[] = {0, 1, 8, 33};
  static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  Random random(seed, "case");
  Case c{random.pick(kM), random.pick(kN), random.pick(kK), random.pick(kTypes), seed};
  const int64_t unit = column_unit(program, draw_sizes(program, {}, c.n, seed));
  c.n = (c.n + unit - 1) / unit * unit;
  return c;
}

}  // namespace coda::check

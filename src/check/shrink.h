// SPDX-License-Identifier: Apache-2.0
// Makes a failing program and case small, and keeps them as a regression: a .coda file with one
// comment line of sizes and seed, which a test replays.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "check/check.h"
#include "ir/program.h"

namespace coda::check {

struct Failure {
  ir::Program program;
  Case c;
};

/// Whether a program still fails at a case. What throws does not count as failing.
using Fails = std::function<bool(const ir::Program&, const Case&)>;

/// The smallest failure found by dropping outputs, putting operands or constants in the place of
/// nodes, and reducing M, N and K, one change at a time as long as any of them keeps failing.
Failure shrink(Failure failure, const Fails& fails);

/// "# case 3x8x1:f32 seed 17 h=8 r=3" and the program.
std::string regression_text(const Failure& failure, const std::map<std::string, int64_t>& sizes);

/// What regression_text() wrote.
struct Regression {
  ir::Program program;
  Case c;
  std::map<std::string, int64_t> sizes;
};
Regression parse_regression(std::string_view text, std::string_view filename);

}  // namespace coda::check

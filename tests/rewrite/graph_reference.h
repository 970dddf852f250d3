// SPDX-License-Identifier: Apache-2.0
// Graphs in float64, the plain way: whole matrices, one node after the other, composites by their
// own formulas. It shares nothing with the passes or the backends but the table of elementwise
// operations.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "ir/program.h"

namespace coda::test {

/// Row-major; a dimension that a value lacks has size 1.
struct Matrix {
  int64_t rows = 1, columns = 1;
  std::vector<double> values;
  double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

using Matrices = std::map<std::string, Matrix>;

/// The outputs of `graph` for `tokens` tokens. `sequences`: cumulative lengths, empty for one.
/// With `rounding`, every operation rounds to a float32 up or down at random, and those of the
/// table within their stated error: how far the results then lie from those without is what float32
/// does to this graph on these numbers (Vignes 1974; Parker 1997).
Matrices evaluate(const ir::Program& graph, const Matrices& inputs, int64_t tokens,
                  const std::vector<int64_t>& sequences = {}, std::mt19937* rounding = nullptr);

/// Shape of an input as a matrix.
Matrix shaped(const ir::Input& input, int64_t tokens);

}  // namespace coda::test

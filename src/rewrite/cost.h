// SPDX-License-Identifier: Apache-2.0
// What a plan moves, multiplies and keeps, counted from its steps: for reports, and for tests that
// hold plans to the traffic that the method promises.
//
// A step reads what it names, once for each use: the operands of its products (one that two
// accumulators share is read once) and the inputs of its epilogue. Numbers are for one token, so
// they hold for any number of tokens; what does not grow with tokens is counted apart.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rewrite/plan.h"

namespace coda::rewrite {

struct Traffic {
  int64_t read = 0, written = 0;  // bytes
  int64_t total() const { return read + written; }
  Traffic& operator+=(const Traffic& other);
};

/// Bytes a token of matrices of T, by their columns: what part of the traffic is as wide as what.
using Widths = std::map<int64_t, int64_t>;

struct StepCost {
  std::string name;
  bool backward = false;
  bool gemm = false;          // a program on a product
  bool attention = false;     // or its gradient
  Traffic matrices;           // a token: matrices of T
  Widths widths;              // the same by columns
  Traffic rows;               // a token: statistics, ids, log-sum-exps
  Traffic fixed;              // whole: weights, vectors and their gradients
  int64_t flops = 0;          // a token: in products
  int64_t flops_per_key = 0;  // a token and a key that it sees: in attention
};

/// Sums over steps; what attention and its gradient move is in `attention` alone.
struct Cost {
  struct Part {
    int calls = 0;  // of programs
    int gemms = 0;  // those on products; the others are passes
    Traffic matrices, rows, fixed, attention;
    Widths widths;  // of `matrices`
    int64_t flops = 0, flops_per_key = 0;
  };
  /// Bytes a token of what forward steps read or make and backward steps read.
  struct Saved {
    int64_t matrices = 0, rows = 0;
    Widths widths;          // of `matrices`
    int64_t attention = 0;  // its result and log-sum-exps, where only its gradient reads them
  };
  std::vector<StepCost> steps;
  Part forward, backward;
  Saved saved;
};

/// The cost of a plan where T is `type`.
Cost cost_of(const Plan& plan, DType type);

/// One line a step, then the sums.
std::string to_string(const Cost& cost);

}  // namespace coda::rewrite

// SPDX-License-Identifier: Apache-2.0
// From a plain graph to a plan of GEMM-epilogue programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "rewrite/plan.h"

namespace coda::rewrite {

struct Options {
  /// Programs on the epilogues of products. Without it every product is stored as it is and all
  /// that stands between products are passes over memory: what fused plans are measured against.
  bool fused = true;
  /// Outputs with an upstream gradient d_NAME, an input of the plan; empty: a forward plan.
  std::vector<std::string> of;
  /// Inputs whose gradients d_NAME are outputs of the plan; empty: all weights and vectors of T.
  std::vector<std::string> wrt;
  /// The upstream gradients are known only after the forward steps: values too wide to keep are
  /// computed again.
  bool late = false;
  /// Activation checkpointing: of forward values, gradients keep those that end a block
  /// (GraphBuilder::end_block), one number a token for each statistic, and what follows the last
  /// end; they make the others again, each block's before its gradients. All results are the same
  /// bits as without. Of no effect on forward plans.
  bool recompute = false;
  /// Logits of so many columns (the vocabulary), that is, products that reach a log-sum-exp over
  /// their columns, are made in chunks of `chunk_rows` tokens and never exist whole; 0: none.
  int64_t chunk_columns = 0;
  int64_t chunk_rows = 1024;
  /// Sees the IR after each pass.
  std::function<void(const char* pass, const std::string& text)> dump;
};

/// Runs the passes. Throws Error{program} for graphs that cannot be rewritten or differentiated,
/// and Error{argument} for names that are not there and where nothing ends a block to recompute.
Plan rewrite(const ir::Program& graph, const Options& options);

}  // namespace coda::rewrite

// SPDX-License-Identifier: Apache-2.0
// Holds plans of a graph against float64: outputs and all gradients, of fused and unfused plans,
// and the float64 gradients against finite differences.
#pragma once

#include <coda/graph.h>

#include <string>
#include <vector>

#include "rewrite/graph_reference.h"
#include "rewrite/rewrite.h"

namespace coda::test {

struct GraphCheck {
  int64_t tokens = 13;
  std::vector<int64_t> sequences;
  std::vector<std::string> of;   // outputs with an upstream gradient
  std::vector<std::string> wrt;  // empty: every weight and vector
  int64_t vocabulary = 0;        // ids and labels lie below it
  int64_t chunk_columns = 0, chunk_rows = 1024;
  bool late = false;
  unsigned seed = 1;
};

rewrite::Options rewriting_of(const GraphCheck& check);

/// Numbers for the inputs of a graph: normal ones, exact in float32; norm weights and frequencies
/// about 1, integers below the vocabulary with some labels ignored.
Matrices draw(const ir::Program& graph, const GraphCheck& check);

/// Reports failures through GoogleTest; returns the fused plan.
rewrite::Plan check_graph(const Graph& graph, const GraphCheck& options);

}  // namespace coda::test

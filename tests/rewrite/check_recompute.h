// SPDX-License-Identifier: Apache-2.0
// Holds plans that recompute against those that do not: the same bits.
#pragma once

#include "rewrite/check_graph.h"

namespace coda::test {

/// Every output and gradient in f32 and bf16, by fused and unfused plans, in one run and with the
/// backward steps later. Reports failures through GoogleTest; returns the fused plan.
rewrite::Plan check_recompute(const Graph& graph, const GraphCheck& check);

}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
// Sums that every layer adds to, where no block's end is marked: gradients do not take the sums of
// all layers from what each layer added.
#include <gtest/gtest.h>

#include <algorithm>

#include "rewrite/blocks.h"
#include "rewrite/check_graph.h"
#include "rewrite/cost.h"

namespace coda::test {
namespace {

/// x + norm(mlp(norm(x))), layer upon layer.
Graph stack(int layers) {
  GraphBuilder g("stack");
  Widths narrow;
  narrow.d = 16, narrow.f = 24;
  Parts p{g, narrow};
  Value x = g.activations("x", p.w.d);
  for (int i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    x = x + p.norm(p.gated_mlp(p.norm(x, "before" + number), number), "behind" + number);
  }
  g.output("y", 1.0 * x);
  return g.build();
}

GraphCheck check() {
  GraphCheck result;
  result.of = {"y"};
  return result;
}

rewrite::Plan plan(int layers) {
  return rewrite::rewrite(stack(layers).ir(), rewriting_of(check()));
}

size_t most_stores(const rewrite::Plan& plan) {
  size_t most = 0;
  for (const rewrite::Step& step : plan.steps) most = std::max(most, writes(step).size());
  return most;
}

TEST(DepthOfGraph, gradients_agree_with_float64) { check_graph(stack(3), check()); }

TEST(DepthOfGraph, no_step_stores_more_in_a_deeper_one) {
  EXPECT_EQ(most_stores(plan(8)), most_stores(plan(4))) << to_string(plan(8));
}

TEST(DepthOfGraph, no_step_reads_more_in_a_deeper_one) {
  const auto most = [](const rewrite::Plan& plan) {
    size_t most = 0;
    for (const rewrite::Step& step : plan.steps) most = std::max(most, reads(step).size());
    return most;
  };
  EXPECT_EQ(most(plan(8)), most(plan(4))) << to_string(plan(8));
}

TEST(DepthOfGraph, bytes_grow_with_the_layers_alone) {
  const auto bytes = [](int layers) {
    const rewrite::Cost cost = rewrite::cost_of(plan(layers), DType::bf16);
    return cost.forward.matrices.total() + cost.backward.matrices.total();
  };
  EXPECT_EQ(bytes(12) - bytes(8), bytes(8) - bytes(4)) << to_string(plan(8));
}

}  // namespace
}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
#include "rewrite/roofline.h"

#include <gtest/gtest.h>

#include "rewrite/blocks.h"
#include "rewrite/rewrite.h"

namespace coda::test {
namespace {

using rewrite::Machine;

TEST(Roofline, data_sheets) {
  const Machine h100 = *rewrite::known_machine("H100", DType::bf16);
  EXPECT_EQ(h100.products, 989e12);
  EXPECT_EQ(h100.bandwidth, 3.35e12);
  const Machine h200 = *rewrite::known_machine("H200", DType::f16);
  EXPECT_EQ(h200.products, 989e12);
  EXPECT_EQ(h200.bandwidth, 4.8e12);
  EXPECT_LT(rewrite::known_machine("H200", DType::f32)->products, 100e12);
  for (const char* name : {"", "h100", "A100", "cpu"})
    EXPECT_FALSE(rewrite::known_machine(name, DType::bf16)) << name;
}

/// A product of x [M, 32] with a weight [48, 32] and a residual: what it moves and takes, by hand.
TEST(Roofline, the_longer_of_products_and_bytes) {
  GraphBuilder g("one");
  const Value x = g.activations("x", 32), r = g.activations("r", 48);
  g.output("y", matmul(x, g.weight("w", 48, 32)) + r);
  const rewrite::Cost cost = rewrite::cost_of(rewrite::rewrite(g.build().ir(), {}), DType::bf16);
  ASSERT_EQ(cost.steps.size(), 1U);
  const rewrite::StepCost& step = cost.steps[0];
  EXPECT_TRUE(step.gemm);
  EXPECT_EQ(step.widths, (rewrite::Widths{{32, 2 * 32}, {48, 2 * 2 * 48}}));
  const int64_t tokens = 7;
  EXPECT_EQ(rewrite::bytes_read(step, tokens), 7 * 2 * (32 + 48) + 2 * 32 * 48);
  EXPECT_EQ(rewrite::bytes_written(step, tokens), 7 * 2 * 48);
  EXPECT_EQ(rewrite::product_flops(step, tokens), 7 * 2 * 32 * 48);
  const double bytes = 7 * 2 * (32 + 48 + 48) + 2 * 32 * 48;
  EXPECT_DOUBLE_EQ(rewrite::seconds(step, tokens, {"slow memory", 1e12, 10, 0}), bytes / 10);
  EXPECT_DOUBLE_EQ(rewrite::seconds(step, tokens, {"slow products", 10, 1e12, 0}),
                   7 * 2 * 32 * 48 / 10.0);
}

TEST(Roofline, widths_are_all_matrices_and_passes_are_no_products) {
  GraphBuilder g("block");
  Parts p{g, {}};
  const Value x = g.activations("x", p.w.d);
  g.output("y", x + p.gated_mlp(p.norm(x, "norm")));
  for (const bool fused : {true, false}) {
    rewrite::Options options;
    options.fused = fused;
    options.of = {"y"};
    const rewrite::Cost cost =
        rewrite::cost_of(rewrite::rewrite(g.build().ir(), options), DType::bf16);
    for (const rewrite::Cost::Part* part : {&cost.forward, &cost.backward}) {
      int64_t total = 0;
      for (const auto& [columns, bytes] : part->widths) total += bytes;
      EXPECT_EQ(total, part->matrices.total());
      int gemms = 0;
      for (const rewrite::StepCost& step : cost.steps)
        gemms += step.backward == (part == &cost.backward) && step.flops > 0;
      EXPECT_EQ(part->gemms, gemms);
    }
    int64_t saved = 0;
    for (const auto& [columns, bytes] : cost.saved.widths) saved += bytes;
    EXPECT_EQ(saved, cost.saved.matrices);
  }
}

}  // namespace
}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
// What plans move and keep, held to the traffic that the method promises for a block of a
// Transformer.
#include "rewrite/cost.h"

#include <gtest/gtest.h>

#include "rewrite/blocks.h"
#include "rewrite/rewrite.h"

namespace coda::test {
namespace {

using rewrite::Cost;

Graph block(const Widths& w) {
  GraphBuilder g("block");
  Parts p{g, w};
  const Value x0 = g.activations("x0", w.d), y0 = g.activations("y0", w.queries());
  const Value positions = g.tokens("positions"), table = g.table("table", w.head_size / 2);
  const Value x1 = x0 + p.project(y0, "wo", w.d, w.queries());
  const Value x2 = x1 + p.gated_mlp(p.norm(x1, "mlp_norm"));
  const auto qkv = p.qkv(p.norm(x2, "attention_norm"), positions, table);
  g.output("x2", x2);
  g.output("y", attention(qkv.q, qkv.k, qkv.v, p.heads()));
  return g.build();
}

rewrite::Options training() {
  rewrite::Options options;
  options.of = {"x2", "y"};
  options.wrt = {"x0", "y0", "wo",       "gate",          "up", "down", "wq",
                 "wk", "wv", "mlp_norm", "attention_norm"};
  return options;
}

class BlockCost : public ::testing::Test {
 protected:
  const Widths w{};
  const int64_t d = w.d, f = w.f;
  const rewrite::Plan plan = rewrite::rewrite(block(w).ir(), training());
  const Cost cost = rewrite::cost_of(plan, DType::bf16);
};

TEST_F(BlockCost, forward_matrices_move_no_more_than_promised) {
  EXPECT_LE(cost.forward.matrices.total(), 24 * d + 8 * f) << to_string(plan) << to_string(cost);
}

TEST_F(BlockCost, backward_matrices_move_no_more_than_promised) {
  EXPECT_LE(cost.backward.matrices.total(), 62 * d + 20 * f) << to_string(plan) << to_string(cost);
}

TEST_F(BlockCost, saved_are_the_residual_streams_the_inputs_of_attention_and_the_gate) {
  EXPECT_LE(cost.saved.matrices, 12 * d + 4 * f) << to_string(plan) << to_string(cost);
  // Two statistics and the position of a token.
  EXPECT_LE(cost.saved.rows, 2 * 4 + 8) << to_string(plan) << to_string(cost);
  EXPECT_EQ(cost.saved.attention, 2 * d + 4 * w.heads) << to_string(plan) << to_string(cost);
}

TEST_F(BlockCost, a_forward_plan_keeps_no_gate) {
  const rewrite::Plan forward = rewrite::rewrite(block(w).ir(), {});
  const Cost alone = rewrite::cost_of(forward, DType::bf16);
  EXPECT_LE(alone.forward.matrices.total(), 24 * d + 4 * f)
      << to_string(forward) << to_string(alone);
  EXPECT_EQ(alone.backward.calls, 0);
  EXPECT_EQ(alone.saved.matrices + alone.saved.rows + alone.saved.attention, 0);
}

TEST_F(BlockCost, an_unfused_plan_moves_more) {
  rewrite::Options options = training();
  options.fused = false;
  const rewrite::Plan unfused = rewrite::rewrite(block(w).ir(), options);
  const Cost more = rewrite::cost_of(unfused, DType::bf16);
  EXPECT_GT(more.forward.matrices.total(), cost.forward.matrices.total());
  EXPECT_GT(more.backward.matrices.total(), cost.backward.matrices.total());
  EXPECT_EQ(more.forward.flops, cost.forward.flops);
  EXPECT_EQ(more.backward.flops, cost.backward.flops);
}

TEST_F(BlockCost, products_are_counted_once_forward_and_twice_backward) {
  const int64_t weights = 4 * d * d + 3 * d * f;
  EXPECT_EQ(cost.forward.flops, 2 * weights);
  EXPECT_EQ(cost.backward.flops, 4 * weights);
  EXPECT_EQ(cost.forward.flops_per_key, 4 * w.heads * w.head_size);
  EXPECT_EQ(cost.backward.flops_per_key, 10 * w.heads * w.head_size);
}

TEST_F(BlockCost, weights_are_read_in_bf16_and_their_gradients_written_in_f32) {
  const int64_t weights = 4 * d * d + 3 * d * f;
  EXPECT_EQ(cost.forward.fixed.written, 0);
  EXPECT_GE(cost.forward.fixed.read, 2 * weights);
  EXPECT_LE(cost.forward.fixed.read, 2 * weights + 64 * d);
  EXPECT_EQ(cost.backward.fixed.written, 4 * weights + 4 * 2 * d);
}

TEST(Cost, a_wider_type_moves_twice_the_matrices_and_the_same_rows) {
  const rewrite::Plan plan = rewrite::rewrite(block({}).ir(), training());
  const Cost narrow = rewrite::cost_of(plan, DType::bf16),
             wide = rewrite::cost_of(plan, DType::f32);
  EXPECT_EQ(wide.forward.matrices.total(), 2 * narrow.forward.matrices.total());
  EXPECT_EQ(wide.backward.matrices.total(), 2 * narrow.backward.matrices.total());
  EXPECT_EQ(wide.backward.rows.total(), narrow.backward.rows.total());
  EXPECT_EQ(wide.saved.matrices, 2 * narrow.saved.matrices);
}

/// One product with a residual, by hand.
TEST(Cost, one_product) {
  GraphBuilder g("one");
  const Value x = g.activations("x", 32), r = g.activations("r", 48);
  g.output("y", matmul(x, g.weight("w", 48, 32)) + r);
  rewrite::Options options;
  options.of = {"y"};
  options.wrt = {"w", "x"};
  const rewrite::Plan plan = rewrite::rewrite(g.build().ir(), options);
  const Cost cost = rewrite::cost_of(plan, DType::bf16);
  EXPECT_EQ(cost.forward.calls, 1);
  EXPECT_EQ(cost.forward.matrices.read, 2 * (32 + 48));
  EXPECT_EQ(cost.forward.matrices.written, 2 * 48);
  EXPECT_EQ(cost.forward.fixed.read, 2 * 32 * 48);
  EXPECT_EQ(cost.forward.flops, 2 * 32 * 48);
  EXPECT_EQ(cost.backward.calls, 2);
  EXPECT_EQ(cost.backward.matrices.read, 2 * 48 + 2 * (48 + 32));
  EXPECT_EQ(cost.backward.matrices.written, 2 * 32);
  EXPECT_EQ(cost.backward.fixed.written, 4 * 32 * 48);
  EXPECT_EQ(cost.backward.flops, 2 * 2 * 32 * 48);
  EXPECT_EQ(cost.saved.matrices, 2 * 32);
  EXPECT_EQ(cost.saved.rows, 0);
}

TEST(Cost, one_embedding) {
  GraphBuilder g("rows");
  g.output("x", embedding(g.tokens("ids"), g.weight("table", 100, 24)));
  rewrite::Options options;
  options.of = {"x"};
  const Cost cost = rewrite::cost_of(rewrite::rewrite(g.build().ir(), options), DType::bf16);
  EXPECT_EQ(cost.forward.calls + cost.backward.calls, 0);
  EXPECT_EQ(cost.forward.matrices.total(), 2 * 2 * 24);
  EXPECT_EQ(cost.forward.rows.read, 8);
  EXPECT_EQ(cost.backward.matrices.read, 2 * 24);
  EXPECT_EQ(cost.backward.fixed.written, 4 * 100 * 24);
}

}  // namespace
}  // namespace coda::test

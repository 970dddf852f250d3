// SPDX-License-Identifier: Apache-2.0
// Golden plans: how many products and passes blocks take, and that they compute what the block
// says.
#include <gtest/gtest.h>

#include "rewrite/blocks.h"
#include "rewrite/check_graph.h"

namespace coda::test {
namespace {

struct Counts {
  int gemms = 0, passes = 0;
  bool operator==(const Counts&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& counts) {
    return out << counts.gemms << " products, " << counts.passes << " passes";
  }
};

Counts count(const rewrite::Plan& plan, size_t begin, size_t end) {
  Counts counts;
  for (size_t s = begin; s < end; ++s) {
    const bool program = std::holds_alternative<rewrite::ProgramCall>(plan.steps[s].call);
    counts.gemms += rewrite::is_gemm(plan.steps[s]);
    counts.passes += program && !rewrite::is_gemm(plan.steps[s]);
  }
  return counts;
}

void expect_counts(const rewrite::Plan& plan, Counts forward, Counts backward) {
  EXPECT_EQ(count(plan, 0, plan.backward), forward) << to_string(plan);
  EXPECT_EQ(count(plan, plan.backward, plan.steps.size()), backward) << to_string(plan);
}

TEST(Block, block) {
  GraphBuilder g("block");
  Parts p{g, {}};
  const Value x0 = g.activations("x0", p.w.d), y0 = g.activations("y0", p.w.queries());
  const Value positions = g.tokens("positions"), table = g.table("table", p.w.head_size / 2);
  const Value x1 = x0 + p.project(y0, "wo", p.w.d, p.w.queries());
  const Value x2 = x1 + p.gated_mlp(p.norm(x1, "mlp_norm"));
  const auto qkv = p.qkv(p.norm(x2, "attention_norm"), positions, table);
  g.output("x2", x2);
  g.output("y", attention(qkv.q, qkv.k, qkv.v, p.heads()));
  GraphCheck check;
  check.of = {"x2", "y"};
  check.wrt = {"x0", "y0", "wo",       "gate",          "up", "down", "wq",
               "wk", "wv", "mlp_norm", "attention_norm"};
  expect_counts(check_graph(g.build(), check), {4, 0}, {8, 1});
}

TEST(Block, block_pre) {
  GraphBuilder g("block_pre");
  Parts p{g, {}};
  const Value ids = g.tokens("ids");
  const Value x = embedding(ids, g.weight("table", p.w.vocabulary, p.w.d));
  const auto qkv =
      p.qkv(p.norm(x, "norm"), g.tokens("positions"), g.table("frequencies", p.w.head_size / 2));
  g.output("x", 1.0 * x);
  g.output("y", attention(qkv.q, qkv.k, qkv.v, p.heads()));
  GraphCheck check;
  check.of = {"y"};
  check.vocabulary = p.w.vocabulary;
  expect_counts(check_graph(g.build(), check), {1, 1}, {2, 1});
}

/// The last block with the loss over the vocabulary; `late`: upstream known after the forward
/// steps.
Graph block_post(const Widths& w) {
  GraphBuilder g("block_post");
  Parts p{g, w};
  const Value x0 = g.activations("x0", w.d), y0 = g.activations("y0", w.queries());
  const Value labels = g.tokens("labels");
  const Value x1 = x0 + p.project(y0, "wo", w.d, w.queries());
  const Value x2 = x1 + p.gated_mlp(p.norm(x1, "mlp_norm"));
  const Value logits = p.project(p.norm(x2, "final_norm"), "head", w.vocabulary, w.d);
  g.output("loss", total(cross_entropy(logits, labels)));
  return g.build();
}

GraphCheck block_post_check(const Widths& w) {
  GraphCheck check;
  check.of = {"loss"};
  check.wrt = {"x0", "y0", "wo", "gate", "up", "down", "head", "mlp_norm", "final_norm"};
  check.vocabulary = w.vocabulary;
  check.chunk_columns = w.vocabulary;
  return check;
}

TEST(Block, block_post) {
  Widths w;
  w.vocabulary = 200;
  for (int64_t chunk_rows : {1, 5, 13, 64}) {
    GraphCheck check = block_post_check(w);
    check.chunk_rows = chunk_rows;
    const rewrite::Plan plan = check_graph(block_post(w), check);
    int gemms = 0;
    for (const rewrite::Step& step : plan.steps) gemms += rewrite::is_gemm(step);
    EXPECT_EQ(gemms, 4 + 8) << to_string(plan);
    for (const rewrite::Buffer& buffer : plan.buffers) {
      if (buffer.per_token && buffer.columns == w.vocabulary) {
        EXPECT_TRUE(buffer.chunked) << buffer.name;
      }
    }
  }
}

TEST(Block, block_post_with_upstream_known_late_makes_logits_again) {
  Widths w;
  w.vocabulary = 200;
  GraphCheck check = block_post_check(w);
  check.late = true;
  check.chunk_rows = 5;
  const rewrite::Plan plan = check_graph(block_post(w), check);
  expect_counts(plan, {4, 1}, {9, 0});
}

TEST(Block, attention_and_mlp_in_parallel_from_one_norm) {
  GraphBuilder g("parallel");
  Parts p{g, {}};
  const Value x = g.activations("x", p.w.d);
  const Value positions = g.tokens("positions"), table = g.table("table", p.w.head_size / 2);
  const Value h = p.norm(x, "norm");
  const auto qkv = p.qkv(h, positions, table);
  const Value y = attention(qkv.q, qkv.k, qkv.v, p.heads());
  g.output("z", x + p.project(y, "wo", p.w.d, p.w.queries()) + p.gated_mlp(h));
  GraphCheck check;
  check.of = {"z"};
  check.wrt = {"x", "norm", "wq", "wk", "wv", "wo", "gate", "up", "down"};
  // Out and down projection are one sum of products, forward and backward.
  expect_counts(check_graph(g.build(), check), {3, 1}, {6, 1});
}

TEST(Block, sandwich_norms_cost_a_pass_each) {
  GraphBuilder g("sandwich");
  Parts p{g, {}};
  const Value x0 = g.activations("x0", p.w.d), y0 = g.activations("y0", p.w.queries());
  const auto norm = [&](Value x, const char* name) {
    return rms_norm(x, g.vector(name, p.w.d), 1e-6, true);
  };
  const Value x1 = x0 + norm(p.project(y0, "wo", p.w.d, p.w.queries()), "post_attention");
  const Value h = norm(x1, "pre_mlp");
  const Value mlp =
      p.project(geglu(p.project(h, "gate", p.w.f, p.w.d), p.project(h, "up", p.w.f, p.w.d)), "down",
                p.w.d, p.w.f);
  g.output("x2", x1 + norm(mlp, "post_mlp"));
  GraphCheck check;
  check.of = {"x2"};
  check.wrt = {"x0", "y0", "wo", "gate", "up", "down", "post_attention", "pre_mlp", "post_mlp"};
  const rewrite::Plan plan = check_graph(g.build(), check);
  EXPECT_EQ(count(plan, 0, plan.backward), (Counts{3, 2})) << to_string(plan);
  EXPECT_EQ(count(plan, plan.backward, plan.steps.size()).gemms, 6) << to_string(plan);
}

TEST(Block, ungated_mlp_with_bias_after_a_layer_norm) {
  GraphBuilder g("ungated");
  Parts p{g, {}};
  const Value x = g.activations("x", p.w.d);
  const Value h = layer_norm(x, g.vector("w", p.w.d), g.vector("b", p.w.d), 1e-5);
  const Value a = p.project(h, "up", p.w.f, p.w.d) + g.vector("up_bias", p.w.f);
  const Value gelu = 0.5 * a * (1.0 + erf(a * std::sqrt(0.5)));
  g.output("y", x + p.project(gelu, "down", p.w.d, p.w.f) + g.vector("down_bias", p.w.d));
  GraphCheck check;
  check.of = {"y"};
  check.wrt = {"x", "w", "b", "up", "up_bias", "down", "down_bias"};
  const rewrite::Plan plan = check_graph(g.build(), check);
  EXPECT_EQ(count(plan, 0, plan.backward).gemms, 2) << to_string(plan);
  EXPECT_EQ(count(plan, plan.backward, plan.steps.size()).gemms, 4) << to_string(plan);
}

TEST(Block, qk_norm_and_grouped_queries) {
  Widths w;
  w.key_heads = 2, w.head_size = 24;
  GraphBuilder g("qk_norm");
  Parts p{g, w};
  const Value x = g.activations("x", w.d);
  const Value positions = g.tokens("positions"), table = g.table("table", w.head_size / 2);
  const Value h = p.norm(x, "norm");
  const auto head = [&](const char* name, Value y) {
    return rope(head_norm(y, g.vector(name, w.head_size), 1e-6), positions, table);
  };
  const Value q = head("q_norm", p.project(h, "wq", w.queries(), w.d));
  const Value k = head("k_norm", p.project(h, "wk", w.keys(), w.d));
  g.output("y", attention(q, k, p.project(h, "wv", w.keys(), w.d), p.heads()));
  GraphCheck check;
  check.of = {"y"};
  check.wrt = {"x", "norm", "wq", "wk", "wv", "q_norm", "k_norm"};
  check.sequences = {0, 4, 4, 13};
  expect_counts(check_graph(g.build(), check), {1, 1}, {2, 1});
}

TEST(Block, biases_of_queries_keys_and_values) {
  Widths w;
  w.key_heads = 1;
  GraphBuilder g("qkv_bias");
  Parts p{g, w};
  const Value x = g.activations("x", w.d);
  const Value positions = g.tokens("positions"), table = g.table("table", w.head_size / 2);
  const Value h = p.norm(x, "norm");
  const auto project = [&](const char* name, const char* bias, int64_t out) {
    return p.project(h, name, out, w.d) + g.vector(bias, out);
  };
  const Value q = rope(project("wq", "bq", w.queries()), positions, table);
  const Value k = rope(project("wk", "bk", w.keys()), positions, table);
  g.output("y", attention(q, k, project("wv", "bv", w.keys()), p.heads()));
  GraphCheck check;
  check.of = {"y"};
  check.wrt = {"x", "norm", "wq", "wk", "wv", "bq", "bk", "bv"};
  expect_counts(check_graph(g.build(), check), {1, 1}, {2, 1});
}

TEST(Block, lora_on_queries_and_values) {
  GraphBuilder g("lora");
  Parts p{g, {}};
  const int64_t rank = 8;
  const Value x = g.activations("x", p.w.d);
  const Value positions = g.tokens("positions"), table = g.table("table", p.w.head_size / 2);
  const Value h = p.norm(x, "norm");
  const auto lora = [&](const std::string& name, int64_t out) {
    const Value down = p.project(h, name + "_a", rank, p.w.d);
    return p.project(h, name, out, p.w.d) + 2.0 * p.project(down, name + "_b", out, rank);
  };
  const Value q = rope(lora("wq", p.w.queries()), positions, table);
  const Value k = rope(p.project(h, "wk", p.w.keys(), p.w.d), positions, table);
  g.output("y", attention(q, k, lora("wv", p.w.keys()), p.heads()));
  GraphCheck check;
  check.of = {"y"};
  check.wrt = {"x", "norm", "wq_a", "wq_b", "wv_a", "wv_b"};
  const rewrite::Plan plan = check_graph(g.build(), check);
  EXPECT_EQ(count(plan, 0, plan.backward), (Counts{5, 1})) << to_string(plan);
}

}  // namespace
}  // namespace coda::test

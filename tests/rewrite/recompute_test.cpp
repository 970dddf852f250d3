// SPDX-License-Identifier: Apache-2.0
// Recomputation: stacks of blocks of every kind give the same bits with it; what it keeps, moves
// and multiplies; one block at a time is made again.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "execute/layout.h"
#include "rewrite/blocks.h"
#include "rewrite/check_recompute.h"
#include "rewrite/cost.h"

namespace coda::test {
namespace {

using rewrite::Buffer;
using rewrite::Plan;
using rewrite::Step;

enum class Kind : unsigned char {
  llama,
  sandwich,   // norms behind attention and MLP too (Gemma)
  qk_norm,    // and grouped queries
  lora,       // on queries and values; the other weights frozen
  parallel,   // attention and MLP from one norm
  post_norm,  // norms behind the residual sums
  layer_norm,
};

/// Layers whose parameters end with the layer's number; each but the last ends a block.
struct Stack {
  Kind kind = Kind::llama;
  int64_t layers = 3;
  Widths w;
  bool embedded = false, loss = false;

  GraphBuilder g{"stack"};
  std::string number;
  std::vector<std::string> adapters;

  Value norm(Value x, const std::string& name) {
    const Value weight = g.vector(name + number, w.d);
    if (kind == Kind::layer_norm)
      return layer_norm(x, weight, g.vector(name + "_b" + number, w.d), 1e-5);
    return rms_norm(x, weight, 1e-5, kind == Kind::sandwich);
  }

  Value project(Value x, const std::string& name, int64_t out, int64_t in) {
    const Value y = matmul(x, g.weight(name + number, out, in));
    if (kind != Kind::lora || (name != "wq" && name != "wv")) return y;
    adapters.push_back(name + "_a" + number), adapters.push_back(name + "_b" + number);
    const Value low = matmul(x, g.weight(name + "_a" + number, 8, in));
    return y + 2.0 * matmul(low, g.weight(name + "_b" + number, out, 8));
  }

  Value attend(Value h, Value positions, Value table) {
    const auto head = [&](const char* name, Value y) {
      if (kind == Kind::qk_norm) y = head_norm(y, g.vector(name + number, w.head_size), 1e-6);
      return rope(y, positions, table);
    };
    const Value q = head("q_norm", project(h, "wq", w.queries(), w.d));
    const Value k = head("k_norm", project(h, "wk", w.keys(), w.d));
    const Value v = project(h, "wv", w.keys(), w.d);
    const Value y = attention(
        q, k, v,
        {w.heads, w.key_heads, w.head_size, 1 / std::sqrt(static_cast<double>(w.head_size))});
    return project(y, "wo", w.d, w.queries());
  }

  Value mlp(Value h) {
    const Value gate = project(h, "gate", w.f, w.d), up = project(h, "up", w.f, w.d);
    return project(kind == Kind::sandwich ? geglu(gate, up) : swiglu(gate, up), "down", w.d, w.f);
  }

  Value layer(Value x, Value positions, Value table) {
    if (kind == Kind::parallel) {
      const Value h = norm(x, "norm");
      return x + attend(h, positions, table) + mlp(h);
    }
    if (kind == Kind::post_norm) {
      const Value x1 = norm(x + attend(x, positions, table), "attention_norm");
      return norm(x1 + mlp(x1), "mlp_norm");
    }
    Value y = attend(norm(x, "attention_norm"), positions, table);
    if (kind == Kind::sandwich) y = norm(y, "after_attention");
    const Value x1 = x + y;
    Value z = mlp(norm(x1, "mlp_norm"));
    if (kind == Kind::sandwich) z = norm(z, "after_mlp");
    return x1 + z;
  }

  Graph graph() {
    const Value positions = g.tokens("positions"), table = g.table("table", w.head_size / 2);
    Value x = embedded ? embedding(g.tokens("ids"), g.weight("rows", w.vocabulary, w.d))
                       : g.activations("x", w.d);
    for (int64_t i = 0; i < layers; ++i) {
      number = std::to_string(i);
      x = layer(x, positions, table);
      if (i + 1 < layers) x = g.end_block(x);
    }
    number = "";
    if (!loss) {
      g.output("y", 1.0 * x);
      return g.build();
    }
    const Value logits = project(norm(x, "final_norm"), "head", w.vocabulary, w.d);
    g.output("loss", total(cross_entropy(logits, g.tokens("labels"))));
    return g.build();
  }

  GraphCheck check() const {
    GraphCheck result;
    result.of = {loss ? "loss" : "y"};
    result.vocabulary = w.vocabulary;
    if (kind == Kind::lora) result.wrt = adapters;
    return result;
  }
};

struct Plans {
  Plan kept, again;
};

Plans plans(Stack stack) {
  const Graph graph = stack.graph();
  rewrite::Options options = rewriting_of(stack.check());
  Plans result;
  result.kept = rewrite::rewrite(graph.ir(), options);
  options.recompute = true;
  result.again = rewrite::rewrite(graph.ir(), options);
  return result;
}

class SameBits : public testing::TestWithParam<Kind> {};

TEST_P(SameBits, of_outputs_and_gradients) {
  for (const bool head : {false, true}) {
    Stack stack;
    stack.kind = GetParam();
    stack.embedded = stack.loss = head;
    stack.w.vocabulary = 150;
    if (stack.kind == Kind::qk_norm) stack.w.key_heads = 2, stack.w.head_size = 24;
    const Graph graph = stack.graph();
    GraphCheck check = stack.check();
    check.sequences = {0, 4, 4, 13};
    check_recompute(graph, check);
    if (head) {
      check.chunk_columns = stack.w.vocabulary;
      for (const bool late : {false, true}) {
        check.chunk_rows = 5, check.late = late;
        const Plan plan = check_recompute(graph, check);
        EXPECT_LT(plan.chunk_begin, plan.chunk_end);
        for (const Buffer& buffer : plan.buffers) {
          EXPECT_TRUE(!buffer.per_token || buffer.columns != stack.w.vocabulary || buffer.chunked)
              << buffer.name;
        }
      }
    }
  }
}

/// More tokens than a tile has rows, and widths that no tile divides.
TEST_P(SameBits, of_large_matrices) {
  Stack stack;
  stack.kind = GetParam();
  stack.w = {336, 272, 6, 3, 56, 96};
  const Graph graph = stack.graph();
  GraphCheck check = stack.check();
  check.tokens = 300;
  check.sequences = {0, 101, 300};
  check_recompute(graph, check);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SameBits,
                         testing::Values(Kind::llama, Kind::sandwich, Kind::qk_norm, Kind::lora,
                                         Kind::parallel, Kind::post_norm, Kind::layer_norm));

// --- what is kept, moved and multiplied

Plans llama(int64_t layers) {
  Stack stack;
  stack.layers = layers;
  return plans(std::move(stack));
}

TEST(Recompute, one_more_layer_keeps_its_end_and_two_statistics) {
  const Stack stack;
  const auto saved = [](int64_t layers) {
    return rewrite::cost_of(llama(layers).again, DType::bf16).saved;
  };
  const auto few = saved(4), more = saved(5);
  EXPECT_EQ(more.matrices - few.matrices, 2 * stack.w.d) << to_string(llama(3).again);
  EXPECT_EQ(more.rows - few.rows, 2 * 4);
  EXPECT_EQ(more.attention, few.attention);
}

TEST(Recompute, one_more_layer_grows_the_arena_by_what_it_keeps) {
  const Stack stack;
  constexpr int64_t kTokens = 4096;  // few bytes are lost between buffers
  const auto bytes = [&](const Plan& plan) {
    return static_cast<int64_t>(execute::lay_out(plan, kTokens, DType::bf16).bytes);
  };
  const Plans four = llama(4), eight = llama(8);
  EXPECT_EQ(bytes(eight.again) - bytes(four.again), 4 * kTokens * (2 * stack.w.d + 2 * 4));
  EXPECT_LT(3 * bytes(eight.again), bytes(eight.kept));
}

TEST(Recompute, products_but_the_last_of_a_layer_are_made_once_more) {
  const Widths w;
  constexpr int64_t kLayers = 5;
  const Plans both = llama(kLayers);
  const rewrite::Cost kept = rewrite::cost_of(both.kept, DType::bf16),
                      again = rewrite::cost_of(both.again, DType::bf16);
  EXPECT_EQ(again.forward.flops, kept.forward.flops);
  EXPECT_EQ(again.forward.flops_per_key, kept.forward.flops_per_key);
  // Queries, keys and values, attention's output, gate and up.
  EXPECT_EQ(again.backward.flops - kept.backward.flops,
            (kLayers - 1) * 2 * (4 * w.d * w.d + 2 * w.d * w.f));
  EXPECT_EQ(again.backward.flops_per_key - kept.backward.flops_per_key,
            (kLayers - 1) * 4 * w.heads * w.head_size);
}

TEST(Recompute, steps_are_those_of_the_forward_part_and_a_pass_for_the_norm) {
  constexpr int64_t kLayers = 5;
  const Plans both = llama(kLayers);
  EXPECT_EQ(both.again.backward, both.kept.backward);
  // The norm's product with its weight; three products; attention.
  EXPECT_EQ(both.again.steps.size() - both.kept.steps.size(), 5 * (kLayers - 1))
      << to_string(both.again);
  const auto gemms = [](const Plan& plan) {
    return std::count_if(plan.steps.begin(), plan.steps.end(), rewrite::is_gemm);
  };
  EXPECT_EQ(gemms(both.again) - gemms(both.kept), 3 * (kLayers - 1)) << to_string(both.again);
}

TEST(Recompute, the_forward_part_stores_what_only_gradients_need_in_the_last_layer_alone) {
  const Widths w;
  Stack stack;
  stack.layers = 5;
  const rewrite::Cost alone =
      rewrite::cost_of(rewrite::rewrite(stack.graph().ir(), {}), DType::bf16);
  const rewrite::Cost again = rewrite::cost_of(llama(5).again, DType::bf16);
  EXPECT_EQ(again.forward.matrices.written - alone.forward.matrices.written, 2 * 2 * w.f);
  EXPECT_EQ(again.forward.matrices.read, alone.forward.matrices.read);
}

/// The layer whose weights a step multiplies with, or -1.
int layer_of(const Plan& plan, const Step& step) {
  const auto* call = std::get_if<rewrite::ProgramCall>(&step.call);
  if (!call || call->products.empty()) return -1;
  for (const rewrite::Ref& weight : call->products[0].weights)
    if (const Buffer& buffer = plan.buffers[weight.buffer]; buffer.role == Buffer::Role::input)
      return buffer.name.back() - '0';
  return -1;
}

TEST(Recompute, one_layer_is_made_again_at_a_time) {
  const Plan plan = llama(5).again;
  const execute::Layout layout = execute::lay_out(plan, 64, DType::bf16);
  std::map<int, std::pair<size_t, size_t>> alive;  // steps during which a layer's values are
  for (size_t s = plan.backward; s < plan.steps.size(); ++s) {
    const int layer = layer_of(plan, plan.steps[s]);
    for (const rewrite::Ref& ref : writes(plan.steps[s])) {
      const std::string& name = plan.buffers[ref.buffer].name;
      if (layer < 0 || name.size() < 6 || name.substr(name.size() - 6) != "_again") continue;
      auto& steps = alive.try_emplace(layer, plan.steps.size(), 0).first->second;
      steps.first = std::min(steps.first, layout.placements[ref.buffer].begin);
      steps.second = std::max(steps.second, layout.placements[ref.buffer].end);
    }
  }
  ASSERT_EQ(alive.size(), 4U) << to_string(plan);
  for (int layer = 3; layer > 0; --layer)
    EXPECT_LE(alive[layer].second, alive[layer - 1].first) << layer << "\n" << to_string(plan);
}

// --- refused, and of no effect

TEST(Recompute, a_graph_that_ends_no_block_is_refused) {
  Stack stack;
  stack.layers = 1;
  rewrite::Options options = rewriting_of(stack.check());
  options.recompute = true;
  const Graph graph = stack.graph();
  try {
    rewrite::rewrite(graph.ir(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::argument);
    EXPECT_NE(std::string(error.what()).find("end_block"), std::string::npos) << error.what();
  }
}

TEST(Recompute, a_forward_plan_stays_as_it_is) {
  Stack stack;
  const Graph graph = stack.graph();
  rewrite::Options options;
  const std::string plain = to_string(rewrite::rewrite(graph.ir(), options));
  options.recompute = true;
  EXPECT_EQ(to_string(rewrite::rewrite(graph.ir(), options)), plain);
}

TEST(Recompute, only_a_matrix_over_tokens_ends_a_block) {
  GraphBuilder g("refused");
  const Value x = g.activations("x", 8);
  EXPECT_THROW(g.end_block(total(x)), Error);
  EXPECT_THROW(g.end_block(g.vector("w", 8)), Error);
  EXPECT_THROW(g.end_block(x > 0), Error);
}

/// A value of the first block that a later one reads beside its end, and an output of the first.
TEST(Recompute, values_that_pass_the_end_of_a_block_are_made_again) {
  GraphBuilder g("passes");
  Parts p{g, {}};
  const Value x = g.activations("x", p.w.d);
  const Value inner = p.project(x, "first", p.w.d, p.w.d);
  const Value a = g.end_block(x + inner * sigmoid(inner));
  const Value b = g.end_block(a + p.gated_mlp(p.norm(a, "norm")));
  g.output("size", total(inner * inner));
  g.output("middle", b);
  g.output("y", b + p.project(inner * b, "last", p.w.d, p.w.d));
  GraphCheck check;
  check.of = {"y", "size", "middle"};
  const Graph graph = g.build();
  check_graph(graph, check);
  check_recompute(graph, check);
}

}  // namespace
}  // namespace coda::test

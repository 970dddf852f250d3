// SPDX-License-Identifier: Apache-2.0
// Ids, labels and positions in plans: their types, numbers of tokens one after the other, and ids
// and labels that a graph computes.
#include <coda/error.h>
#include <coda/graph.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "rewrite/plan_run.h"
#include "rewrite/rewrite.h"

namespace coda::test {
namespace {

using execute::Executor;
using Numbers = std::vector<double>;

constexpr int64_t kWidth = 8, kVocabulary = 16;

Numbers values(int64_t count, int64_t offset = 0) {
  Numbers result;
  for (int64_t n = offset; n < offset + count; ++n)
    result.push_back(static_cast<double>((37 * n + 11) % 101 - 50) / 32);
  return result;
}

/// A layer with everything that takes ids, positions and labels of one type.
Graph layer(DType type) {
  GraphBuilder g("layer");
  const Value x = embedding(g.tokens("ids", type), g.weight("table", kVocabulary, kWidth));
  const Value positions = g.tokens("positions", type), frequencies = g.table("frequencies", 2);
  const Value q = rope(matmul(x, g.weight("wq", kWidth, kWidth)), positions, frequencies);
  const Value k = rope(matmul(x, g.weight("wk", 4, kWidth)), positions, frequencies);
  const Value v = matmul(x, g.weight("wv", 4, kWidth));
  const Value y = x + attention(q, k, v, {2, 1, 4, 0.5});
  g.output("y", y);
  g.output("loss", cross_entropy(matmul(y, g.weight("head", kVocabulary, kWidth)),
                                 g.tokens("labels", type)));
  return g.build();
}

Numbers modulo(int64_t tokens, int64_t times, int64_t count) {
  Numbers result;
  for (int64_t i = 0; i < tokens; ++i) result.push_back(static_cast<double>(times * i % count));
  return result;
}

void set_layer(PlanRun& run, int64_t tokens) {
  run.set("ids", modulo(tokens, 5, kVocabulary));
  run.set("positions", modulo(tokens, 3, 40));
  run.set("labels", modulo(tokens, 7, kVocabulary));
  run.set("table", values(kVocabulary * kWidth));
  run.set("wq", values(kWidth * kWidth, 1));
  run.set("wk", values(4 * kWidth, 2));
  run.set("wv", values(4 * kWidth, 3));
  run.set("head", values(kVocabulary * kWidth, 4));
  run.set("frequencies", {1, 0.01});
}

TEST(Tokens, of_32_and_64_bits_give_the_same_bits) {
  Matrices first;
  for (DType type : {DType::i64, DType::i32}) {
    const Executor plan(rewrite::rewrite(layer(type).ir(), {}), DType::f32, 1);
    PlanRun run(plan, 13);
    set_layer(run, 13);
    run.run();
    for (const char* name : {"y", "loss"}) {
      const Matrix made = run.get(name);
      EXPECT_FALSE(std::isnan(made.values[0]));
      if (!first.count(name)) first[name] = made;
      EXPECT_EQ(made.values, first.at(name).values) << name;
    }
  }
}

/// One plan for 16 tokens, then 64, then 1: what came before leaves no trace.
TEST(Tokens, of_a_longer_call_extend_those_of_a_shorter_one) {
  const Executor plan(rewrite::rewrite(layer(DType::i64).ir(), {}), DType::f32, 1);
  Matrix whole;
  for (int64_t tokens : {64, 16, 64, 1}) {
    PlanRun run(plan, tokens);
    set_layer(run, tokens);
    run.run();
    const Matrix y = run.get("y");
    if (whole.values.empty()) whole = y;
    for (size_t i = 0; i < y.values.size(); ++i)
      ASSERT_NEAR(y.values[i], whole.values[i], 1e-5) << tokens << " tokens, element " << i;
  }
}

// --- computed ids and labels

struct Computed {
  const char* name;
  std::function<Value(GraphBuilder&)> labels;
  bool taken;
};

Value input(GraphBuilder& g) { return g.tokens("labels"); }

const Computed kComputed[] = {
    {"the ones after", [](GraphBuilder& g) { return input(g) + 1; }, false},
    {"negated", [](GraphBuilder& g) { return -input(g); }, false},
    {"times 2", [](GraphBuilder& g) { return input(g) * 2; }, false},
    {"clamped to one too many", [](GraphBuilder& g) { return clamp(input(g), 0, kVocabulary); },
     false},
    {"clamped from below", [](GraphBuilder& g) { return max(input(g), 0); }, false},
    {"clamped from above", [](GraphBuilder& g) { return min(input(g), kVocabulary - 1); }, false},
    {"clamped", [](GraphBuilder& g) { return clamp(input(g) + 1, 0, kVocabulary - 1); }, true},
    {"by max and min", [](GraphBuilder& g) { return min(max(input(g), 0), 9); }, true},
    {"a remainder", [](GraphBuilder& g) { return (input(g) + 1) % kVocabulary; }, true},
    {"a remainder of more", [](GraphBuilder& g) { return input(g) % (kVocabulary + 1); }, false},
    {"a remainder of less than nothing", [](GraphBuilder& g) { return input(g) % -4; }, false},
    {"a remainder of an input", [](GraphBuilder& g) { return input(g) % g.tokens("n"); }, false},
    {"ignored where masked",
     [](GraphBuilder& g) { return where(g.tokens("mask"), input(g), -100); }, true},
    {"another constant where masked",
     [](GraphBuilder& g) { return where(g.tokens("mask"), input(g), -1); }, false},
    {"computed where not masked",
     [](GraphBuilder& g) { return where(g.tokens("mask"), input(g) + 1, -100); }, false},
    {"a comparison", [](GraphBuilder& g) { return where(input(g) > 3, 1, 0); }, true},
};

TEST(Tokens, computed_labels_are_taken_where_they_cannot_be_out_of_range) {
  for (const Computed& computed : kComputed)
    for (bool square : {false, true}) {
      SCOPED_TRACE(computed.name);
      GraphBuilder g("computed");
      const Value logits = g.activations("logits", kVocabulary), labels = computed.labels(g);
      g.output("loss", square ? z_loss(logits, labels) : cross_entropy(logits, labels));
      std::string what;
      try {
        rewrite::rewrite(g.build().ir(), {});
      } catch (const Error& error) {
        what = error.what();
        EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      }
      EXPECT_EQ(what.empty(), computed.taken);
      if (!computed.taken) {
        EXPECT_NE(what.find("labels that cannot leave 0 to 15, or be -100"), std::string::npos)
            << what;
      }
    }
}

TEST(Tokens, computed_ids_are_taken_where_they_cannot_be_out_of_range) {
  for (int64_t rows : {15, 16}) {
    GraphBuilder g("ids");
    const Value ids = g.tokens("ids") % 16;
    g.output("x", 1.0 * embedding(ids, g.weight("table", rows, kWidth)));
    const auto make = [&] { return rewrite::rewrite(g.build().ir(), {}); };
    if (rows < 16) {
      EXPECT_THROW(make(), Error);
      continue;
    }
    const Executor plan(make(), DType::f32, 1);
    PlanRun run(plan, 4);
    run.set("ids", {-1, 16, 1000003, 5});
    run.set("table", values(rows * kWidth));
    run.run();
    const Numbers table = values(rows * kWidth), x = run.get("x").values;
    const size_t want[] = {15, 0, 1000003 % 16, 5};
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = 0; j < kWidth; ++j) EXPECT_EQ(x[i * kWidth + j], table[want[i] * kWidth + j]);
  }
}

/// The inputs of a choice are looked at, and what it ignores has neither loss nor gradient.
TEST(Tokens, labels_chosen_by_a_mask) {
  GraphBuilder g("masked");
  const Value labels = where(g.tokens("mask", DType::u8), g.tokens("labels"), -100);
  g.output("loss", cross_entropy(g.activations("logits", kVocabulary), labels));
  rewrite::Options options;
  options.of = {"loss"}, options.wrt = {"logits"};
  const Executor plan(rewrite::rewrite(g.build().ir(), options), DType::f32, 1);
  for (double wrong : {3.0, 16.0, -1.0}) {
    PlanRun run(plan, 3);
    run.set("logits", values(3 * kVocabulary));
    run.set("mask", {1, 0, 1});
    run.set("labels", {wrong, 4, 5});
    run.set("d_loss", {1, 1, 1});
    if (wrong != 3) {
      EXPECT_THROW(run.run(), Error) << wrong;
      EXPECT_TRUE(std::isnan(run.get("loss").values[0]));
      continue;
    }
    run.run();
    const Numbers loss = run.get("loss").values, gradient = run.get("d_logits").values;
    EXPECT_GT(loss[0], 0);
    EXPECT_EQ(loss[1], 0);
    EXPECT_GT(loss[2], 0);
    for (size_t j = 0; j < kVocabulary; ++j) {
      EXPECT_NE(gradient[j], 0);
      EXPECT_EQ(gradient[kVocabulary + j], 0);
    }
  }
}

}  // namespace
}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
// Cross-entropy in plans, in the ways in which fused losses are known to go wrong: chunks, ignored
// labels, upstream gradients that were forgotten, sums in narrow types, counts of micro-batches.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "rewrite/check_graph.h"
#include "rewrite/plan_run.h"

namespace coda::test {
namespace {

using execute::Executor;
using Numbers = std::vector<double>;

/// Numbers in [-1.5625, 1.5625], exact in bf16.
Numbers values(int64_t count, int64_t offset = 0, double times = 1, double plus = 0) {
  Numbers result;
  for (int64_t n = offset; n < offset + count; ++n)
    result.push_back(times * static_cast<double>((37 * n + 11) % 101 - 50) / 32 + plus);
  return result;
}

struct Loss {
  double smoothing = 0, z = 0, cap = 0;
  bool each = false;   // one loss a token rather than their sum
  bool count = false;  // the sum divided by the input `count`
  bool weights = false;
};

Value loss_of(GraphBuilder& g, Value logits, const Loss& loss) {
  const Value labels = g.tokens("labels");
  if (loss.cap > 0) logits = softcap(logits, loss.cap);
  CrossEntropyOptions options;
  options.smoothing = loss.smoothing;
  Value result = cross_entropy(logits, labels, options);
  if (loss.z > 0) result = result + loss.z * z_loss(logits, labels);
  if (loss.weights) result = result * g.token_scalars("token_weights");
  if (!loss.each) result = total(result);
  return loss.count ? result / g.scalar("count") : result;
}

/// The loss of logits that are an input.
Graph plain(int64_t vocabulary, const Loss& loss) {
  GraphBuilder g("plain");
  g.output("loss", loss_of(g, g.activations("logits", vocabulary), loss));
  return g.build();
}

/// The loss behind a head, as models have it.
Graph linear(int64_t vocabulary, int64_t width, const Loss& loss) {
  GraphBuilder g("linear");
  const Value x = g.activations("x", width);
  g.output("loss", loss_of(g, matmul(x, g.weight("head", vocabulary, width)), loss));
  return g.build();
}

rewrite::Options by(std::vector<std::string> wrt, int64_t chunk_columns = 0, int64_t chunk_rows = 1,
                    bool late = false) {
  rewrite::Options options;
  options.of = {"loss"};
  options.wrt = std::move(wrt);
  options.chunk_columns = chunk_columns;
  options.chunk_rows = chunk_rows;
  options.late = late;
  return options;
}

Executor executor(const Graph& graph, const rewrite::Options& options, DType type = DType::f32) {
  return {rewrite::rewrite(graph.ir(), options), type, 2};
}

void expect_near(const Numbers& got, const Numbers& want, double relative) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 0;
  for (double value : want) scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], relative * scale) << "element " << i;
}

/// Losses and their gradients by the formulas, in float64.
struct Reference {
  Numbers loss, d_logits;  // of one unit of upstream a token

  Reference(const Numbers& logits, const Numbers& labels, const Loss& loss_of) {
    const size_t vocabulary = logits.size() / labels.size();
    for (size_t m = 0; m < labels.size(); ++m) {
      Numbers z(logits.begin() + static_cast<ptrdiff_t>(m * vocabulary),
                logits.begin() + static_cast<ptrdiff_t>((m + 1) * vocabulary));
      Numbers inner(vocabulary, 1);
      for (size_t j = 0; j < vocabulary && loss_of.cap > 0; ++j) {
        const double t = std::tanh(z[j] / loss_of.cap);
        z[j] = loss_of.cap * t, inner[j] = 1 - t * t;
      }
      const double top = *std::max_element(z.begin(), z.end());
      double sum = 0, mean = 0;
      for (double value : z) sum += std::exp(value - top), mean += value / double(vocabulary);
      const double lse = top + std::log(sum), s = loss_of.smoothing;
      const bool ignored = labels[m] == -100;
      const size_t label = ignored ? 0 : static_cast<size_t>(labels[m]);
      loss.push_back(
          ignored ? 0 : (1 - s) * (lse - z[label]) + s * (lse - mean) + loss_of.z * lse * lse);
      for (size_t j = 0; j < vocabulary; ++j) {
        const double p = std::exp(z[j] - lse), hit = j == label ? 1 : 0;
        const double d = p - (1 - s) * hit - s / double(vocabulary) + loss_of.z * 2 * lse * p;
        d_logits.push_back(ignored ? 0 : d * inner[j]);
      }
    }
  }
  double total() const {
    double sum = 0;
    for (double value : loss) sum += value;
    return sum;
  }
};

Numbers times(Numbers values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

constexpr DType kTypes[] = {DType::f32, DType::bf16};

TEST(Loss, gives_zeros_where_all_labels_are_ignored) {
  for (DType type : kTypes)
    for (int64_t chunk : {0, 3})
      for (const Loss& loss : {Loss{}, Loss{0.1, 1e-2}}) {
        const Executor plan =
            executor(linear(16, 8, loss), by({"x", "head"}, chunk ? 16 : 0, chunk), type);
        PlanRun run(plan, 4);
        run.set("x", values(4 * 8));
        run.set("head", values(16 * 8, 5));
        run.set("labels", Numbers(4, -100));
        run.set("d_loss", {1});
        run.run();
        EXPECT_EQ(run.number("loss"), 0);
        EXPECT_EQ(run.get("d_x").values, Numbers(4 * 8, 0));
        EXPECT_EQ(run.get("d_head").values, Numbers(16 * 8, 0));
      }
}

TEST(Loss, ignored_rows_change_nothing) {
  for (DType type : kTypes)
    for (int64_t chunk : {0, 2}) {
      const Executor plan =
          executor(linear(16, 8, {0.1, 1e-2}), by({"x", "head"}, chunk ? 16 : 0, chunk), type);
      Matrices first;
      for (double moved : {0.0, 100.0}) {
        PlanRun run(plan, 5);
        Numbers x = values(5 * 8);
        for (size_t j = 2 * 8; j < 3 * 8; ++j) x[j] += moved;
        run.set("x", x);
        run.set("head", values(16 * 8, 5));
        run.set("labels", {3, 15, -100, 0, 7});
        run.set("d_loss", {1});
        run.run();
        const Matrices now{
            {"loss", run.get("loss")}, {"d_x", run.get("d_x")}, {"d_head", run.get("d_head")}};
        for (size_t j = 2 * 8; j < 3 * 8; ++j) EXPECT_EQ(now.at("d_x").values[j], 0);
        if (moved == 0) first = now;
        for (const auto& [name, matrix] : now)
          EXPECT_EQ(matrix.values, first.at(name).values) << name;
      }
    }
}

TEST(Loss, is_the_same_for_every_size_of_chunk) {
  constexpr int64_t kTokens = 70, kVocabulary = 33, kWidth = 12;
  Numbers labels;
  for (int64_t n = 0; n < kTokens; ++n) labels.push_back(double(7 * n % kVocabulary));
  labels[3] = labels[64] = -100;
  Numbers loss, d_x, d_head;
  for (bool late : {false, true})
    for (int64_t chunk : {kTokens, int64_t{1}, int64_t{5}, int64_t{16}, int64_t{64}}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk) + (late ? ", late" : ""));
      const Executor plan = executor(linear(kVocabulary, kWidth, {0.1, 1e-2}),
                                     by({"x", "head"}, kVocabulary, chunk, late));
      PlanRun run(plan, kTokens);
      run.set("x", values(kTokens * kWidth));
      run.set("head", values(kVocabulary * kWidth, 5));
      run.set("labels", labels);
      run.set("d_loss", {0.5});
      run.run();
      if (loss.empty()) {
        loss = run.get("loss").values;
        d_x = run.get("d_x").values, d_head = run.get("d_head").values;
      }
      expect_near(run.get("loss").values, loss, 2e-6);
      expect_near(run.get("d_x").values, d_x, 2e-6);
      expect_near(run.get("d_head").values, d_head, 2e-6);
    }
}

TEST(Loss, and_all_gradients_agree_with_float64_in_chunks) {
  for (int64_t chunk : {1, 5, 16, 64, 70})
    for (bool late : {false, true}) {
      GraphCheck check;
      check.tokens = 23;
      check.of = {"loss"};
      check.wrt = {"x", "head"};
      check.vocabulary = check.chunk_columns = 33;
      check.chunk_rows = chunk;
      check.late = late;
      check_graph(linear(33, 12, {0.1, 1e-2, 2.5, false, true, true}), check);
    }
}

TEST(Loss, of_each_token_takes_an_upstream_of_each_token) {
  const Numbers logits = values(3 * 8), labels{2, 7, 0}, upstream{1, 2, -1};
  const Executor plan = executor(plain(8, {0, 0, 0, true}), by({"logits"}));
  PlanRun run(plan, 3);
  run.set("logits", logits);
  run.set("labels", labels);
  run.set("d_loss", upstream);
  run.run();
  const Reference reference(logits, labels, {});
  expect_near(run.get("loss").values, reference.loss, 1e-6);
  Numbers want = reference.d_logits;
  for (size_t i = 0; i < want.size(); ++i) want[i] *= upstream[i / 8];
  expect_near(run.get("d_logits").values, want, 1e-6);
  GraphCheck check;
  check.of = {"loss"};
  check.wrt = {"x", "head"};
  check.vocabulary = 16;
  check_graph(linear(16, 8, {0.1, 1e-2, 0, true}), check);
}

/// The backward of L^2: 2 L is known only after the forward steps.
TEST(Loss, takes_twice_itself_as_its_upstream) {
  const Numbers logits = values(4 * 8), labels{2, 7, 0, 5};
  const Reference reference(logits, labels, {});
  const double mean = reference.total() / 4;
  for (int64_t chunk : {0, 3}) {
    const Executor plan =
        executor(plain(8, {0, 0, 0, false, true}), by({"logits"}, chunk ? 8 : 0, chunk, true));
    PlanRun run(plan, 4);
    run.set("logits", logits);
    run.set("labels", labels);
    run.set("count", {4});
    execute::Run part;
    part.backward = false;
    run.run(part);
    EXPECT_NEAR(run.number("loss"), mean, 1e-6);
    run.set("d_loss", {2 * run.number("loss")});
    part.forward = false, part.backward = true;
    run.run(part);
    expect_near(run.get("d_logits").values, times(reference.d_logits, 2 * mean / 4), 2e-6);
  }
}

TEST(Loss, behind_a_head_takes_twice_itself_as_its_upstream) {
  const Graph graph = linear(16, 8, {0, 0, 0, false, true});
  Numbers want;
  for (bool late : {false, true}) {
    const Executor plan = executor(graph, by({"x"}, 16, 2, late));
    PlanRun run(plan, 5);
    run.set("x", values(5 * 8));
    run.set("head", values(16 * 8, 5));
    run.set("labels", {3, 15, -100, 0, 7});
    run.set("count", {4});
    execute::Run part;
    if (late) {
      part.backward = false;
      run.run(part);
      run.set("d_loss", {2 * run.number("loss")});
      part.forward = false, part.backward = true;
      run.run(part);
      expect_near(run.get("d_x").values, want, 2e-6);
    } else {
      run.set("d_loss", {1});
      run.run();
      want = times(run.get("d_x").values, 2 * run.number("loss"));
    }
  }
}

TEST(Loss, smoothed_skips_ignored_labels) {
  const Numbers logits = values(3 * 8), labels{2, -100, 5};
  for (DType type : kTypes) {
    const Executor plan = executor(plain(8, {0.1}), by({"logits"}), type);
    PlanRun run(plan, 3);
    run.set("logits", logits);
    run.set("labels", labels);
    run.set("d_loss", {1});
    run.run();
    const Reference reference(logits, labels, {0.1});
    EXPECT_NEAR(run.number("loss"), reference.total(), 1e-5);
    expect_near(run.get("d_logits").values, reference.d_logits,
                type == DType::f32 ? 1e-6 : 1.0 / 256);
  }
}

TEST(Loss, adds_the_squared_log_sum_exp_of_whole_rows) {
  const Numbers logits = values(4 * 9, 0, 1, 3), labels{1, 8, -100, 4};
  const Reference reference(logits, labels, {0, 1e-2});
  const Executor plan = executor(plain(9, {0, 1e-2}), by({"logits"}));
  PlanRun run(plan, 4);
  run.set("logits", logits);
  run.set("labels", labels);
  run.set("d_loss", {1});
  run.run();
  EXPECT_NEAR(run.number("loss"), reference.total(), 1e-5);
  expect_near(run.get("d_logits").values, reference.d_logits, 2e-6);
}

/// Both losses of one product as outputs of their own, as reports show them.
TEST(Loss, and_its_square_term_are_reported_apart) {
  GraphBuilder g("apart");
  const Value logits = matmul(g.activations("x", 8), g.weight("head", 16, 8));
  const Value labels = g.tokens("labels");
  const Value nll = cross_entropy(logits, labels), z = z_loss(logits, labels);
  g.output("nll", total(nll));
  g.output("z", total(z));
  g.output("loss", total(nll + 0.01 * z));
  GraphCheck check;
  check.of = {"loss", "z"};
  check.wrt = {"x", "head"};
  check.vocabulary = 16;
  check_graph(g.build(), check);
}

TEST(Loss, of_capped_logits) {
  const Numbers logits = values(4 * 9, 0, 38.4), labels{1, 8, 0, 4};  // up to +-60
  const Reference reference(logits, labels, {0, 0, 30});
  EXPECT_GT(std::fabs(reference.total() - Reference(logits, labels, {}).total()), 1);
  const Executor plan = executor(plain(9, {0, 0, 30}), by({"logits"}));
  PlanRun run(plan, 4);
  run.set("logits", logits);
  run.set("labels", labels);
  run.set("d_loss", {1});
  run.run();
  EXPECT_NEAR(run.number("loss"), reference.total(), 1e-5 * reference.total());
  expect_near(run.get("d_logits").values, reference.d_logits, 1e-5);
}

TEST(Loss, behind_a_head_with_a_bias) {
  GraphBuilder g("bias");
  const Value logits =
      matmul(g.activations("x", 16), g.weight("head", 33, 16)) + g.vector("bias", 33);
  g.output("loss", total(cross_entropy(logits, g.tokens("labels"))));
  const Graph graph = g.build();
  const Executor plan = executor(graph, by({"bias"}, 33, 3));
  PlanRun run(plan, 4);
  const Numbers x = values(4 * 16), head = values(33 * 16, 5), bias = values(33, 7, 4);
  const Numbers labels{32, 0, 17, 5};
  run.set("x", x);
  run.set("head", head);
  run.set("bias", bias);
  run.set("labels", labels);
  run.set("d_loss", {1});
  run.run();
  Numbers z(4 * 33);
  for (size_t m = 0; m < 4; ++m)
    for (size_t v = 0; v < 33; ++v) {
      z[m * 33 + v] = bias[v];
      for (size_t k = 0; k < 16; ++k) z[m * 33 + v] += x[m * 16 + k] * head[v * 16 + k];
    }
  const Reference reference(z, labels, {});
  EXPECT_NEAR(run.number("loss"), reference.total(), 1e-5 * reference.total());
  Numbers d_bias(33);
  for (size_t i = 0; i < z.size(); ++i) d_bias[i % 33] += reference.d_logits[i];
  expect_near(run.get("d_bias").values, d_bias, 1e-5);
}

/// 4096 equal rows that each add 2^-10 to a gradient: sums in bf16 would stall at a quarter.
TEST(Loss, sums_small_gradients_of_many_tokens) {
  constexpr int64_t kTokens = 4096;
  for (int64_t chunk : {0, 64, 1000}) {
    const Executor plan =
        executor(linear(2, 4, {}), by({"head"}, chunk ? 2 : 0, chunk), DType::bf16);
    PlanRun run(plan, kTokens);
    run.set("x", Numbers(kTokens * 4, 1));
    run.set("head", {0.5, -1, 0.25, 1, 0.5, -1, 0.25, 1});  // equal rows: both chances are 1/2
    run.set("labels", Numbers(kTokens, 1));
    run.set("d_loss", {std::ldexp(1, -9)});
    run.run();
    expect_near(run.get("d_head").values, {4, 4, 4, 4, -4, -4, -4, -4}, 1e-6);
  }
}

/// The chosen logit and the sum are of the same bf16 numbers, in float32.
TEST(Loss, takes_the_label_from_what_the_sum_is_taken_from) {
  Numbers logits(2 * 16, 20);
  logits[3] = logits[16 + 9] = 20.125;
  const Executor plan = executor(plain(16, {}), by({"logits"}), DType::bf16);
  PlanRun run(plan, 2);
  run.set("logits", logits);
  run.set("labels", {3, 9});
  run.set("d_loss", {1});
  run.run();
  const Reference reference(logits, {3, 9}, {});
  EXPECT_NEAR(run.number("loss"), reference.total(), 1e-5);
}

TEST(Loss, gradients_are_multiplied_by_the_upstream) {
  for (const Loss& loss : {Loss{}, Loss{0.1}, Loss{0, 1e-2}, Loss{0.1, 1e-2, 2.5},
                           Loss{0, 1e-2, 0, false, true, true}})
    for (bool late : {false, true}) {
      const Executor plan = executor(linear(16, 8, loss), by({"x", "head"}, 16, 2, late));
      Numbers d_x, d_head;
      for (double upstream : {1.0, 0.125, 3.0}) {
        PlanRun run(plan, 5);
        run.set("x", values(5 * 8));
        run.set("head", values(16 * 8, 5));
        run.set("labels", {3, 15, -100, 0, 7});
        if (loss.weights) run.set("token_weights", {1, 0.5, 2, 0.25, 1.5});
        if (loss.count) run.set("count", {4});
        run.set("d_loss", {upstream});
        run.run();
        if (upstream == 1) d_x = run.get("d_x").values, d_head = run.get("d_head").values;
        expect_near(run.get("d_x").values, times(d_x, upstream), 1e-6);
        expect_near(run.get("d_head").values, times(d_head, upstream), 1e-6);
      }
    }
}

TEST(Loss, labels_and_ids_out_of_range_are_refused_before_anything_is_written) {
  GraphBuilder g("ids");
  const Value x = embedding(g.tokens("ids"), g.weight("table", 12, 8));
  const Value logits = matmul(x, g.weight("head", 16, 8));
  g.output("loss", total(cross_entropy(logits, g.tokens("labels", DType::i32))));
  const Graph graph = g.build();
  const Executor plan = executor(graph, by({"head"}));
  struct Case {
    Numbers ids, labels;
    const char* what;  // nothing: they are taken
  };
  const Case cases[] = {
      {{0, 11, 5, 1}, {3, 23, -100, 0}, "[ids] 'labels': expected labels from 0 to 15, or -100"},
      {{0, 11, 5, 1}, {3, -1, -100, 0}, "[ids] 'labels': expected labels from 0 to 15, or -100"},
      {{0, 12, 5, 1}, {3, 15, -100, 0}, "[ids] 'ids': expected labels from 0 to 11"},
      {{0, 11, -100, 1}, {3, 15, -100, 0}, "[ids] 'ids': expected labels from 0 to 11"},
      {{0, 11, 5, 1}, {3, 15, -100, 0}, nullptr},
  };
  for (const Case& c : cases) {
    PlanRun run(plan, 4);
    run.set("table", values(12 * 8));
    run.set("head", values(16 * 8, 5));
    run.set("ids", c.ids);
    run.set("labels", c.labels);
    run.set("d_loss", {1});
    std::string what;
    try {
      run.run();
    } catch (const Error& error) {
      what = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::argument);
    }
    EXPECT_EQ(what.substr(0, c.what ? std::string(c.what).size() : 1), c.what ? c.what : "");
    EXPECT_EQ(std::isnan(run.number("loss")), c.what != nullptr);
    EXPECT_EQ(std::isnan(run.get("d_head").values[0]), c.what != nullptr);
  }
}

/// Micro-batches that add to what is there are one batch, whatever part of the tokens counts.
void check_micro_batches(const Numbers& labels, int64_t first, double valid, int64_t chunk) {
  const Executor plan = executor(linear(16, 8, {0.1, 1e-2, 0, false, true}),
                                 by({"x", "head"}, chunk ? 16 : 0, chunk));
  const auto tokens = static_cast<int64_t>(labels.size());
  const Numbers x = values(tokens * 8), head = values(16 * 8, 5);
  Numbers loss(1, 0.25), d_head(16 * 8, 1);  // what is there already
  const auto part = [&](int64_t from, int64_t to) {
    PlanRun run(plan, to - from);
    run.set("x", {x.begin() + from * 8, x.begin() + to * 8});
    run.set("labels", {labels.begin() + from, labels.begin() + to});
    run.set("head", head);
    run.set("count", {valid});
    run.set("d_loss", {1});
    run.set("loss", loss);
    run.set("d_head", d_head);
    execute::Run adding;
    adding.accumulate = true;
    run.run(adding);
    loss = run.get("loss").values, d_head = run.get("d_head").values;
    return run.get("d_x").values;
  };
  PlanRun whole(plan, tokens);
  whole.set("x", x);
  whole.set("labels", labels);
  whole.set("head", head);
  whole.set("count", {valid});
  whole.set("d_loss", {1});
  whole.run();
  Numbers d_x = part(0, first);
  const Numbers rest = part(first, tokens);
  d_x.insert(d_x.end(), rest.begin(), rest.end());
  expect_near(d_x, whole.get("d_x").values, 1e-6);
  EXPECT_NEAR(loss[0] - 0.25, whole.number("loss"), 1e-6);
  Numbers want = whole.get("d_head").values;
  for (double& value : want) value += 1;
  expect_near(d_head, want, 1e-6);
}

TEST(Loss, micro_batches_add_up_to_one_batch) {
  for (int64_t chunk : {0, 3}) {
    check_micro_batches({3, 15, 2, 0, -100, 7, 9, -100}, 4, 6, chunk);
    check_micro_batches({3, -100, -100, 0, 5, 7, 9, 1}, 3, 6, chunk);  // 1 and 5 valid ones
    check_micro_batches({-100, -100, 2, 0}, 2, 2, chunk);              // none in the first
  }
}

}  // namespace
}  // namespace coda::test

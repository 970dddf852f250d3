// SPDX-License-Identifier: Apache-2.0
// Gradients of graphs: every operation has those of all its operands, and only those asked for are
// made; gradients of gradients; what gradients are added to, and what they leave alone.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "rewrite/check_graph.h"
#include "rewrite/passes.h"
#include "rewrite/plan_run.h"

namespace coda::test {
namespace {

using execute::Executor;
using Numbers = std::vector<double>;

constexpr int64_t kTokens = 9, kWidth = 12;

Numbers drawn(int64_t count, unsigned seed, double times = 1, double plus = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<float>(plus + times * static_cast<double>(normal(random))));
  return result;
}

double largest(const Numbers& values) {
  double result = 0;
  for (double value : values) result = std::max(result, std::fabs(value));
  return result;
}

/// An operation on parameters and activations; its result becomes the output y.
struct Operation {
  const char* name;
  std::vector<std::string> operands;  // those that have a gradient
  std::function<Value(GraphBuilder&)> make;
};

Value x_of(GraphBuilder& g) { return g.activations("x", kWidth); }
Value other_of(GraphBuilder& g) { return g.activations("other", kWidth); }
Value v_of(GraphBuilder& g) { return g.vector("v", kWidth); }
Value b_of(GraphBuilder& g) { return g.vector("b", kWidth); }

/// A function of one operand as activations are written: of x plus a bias of every row.
Operation activation(const char* name, Value (*f)(Value)) {
  return {name, {"x", "b"}, [f](GraphBuilder& g) { return f(x_of(g) + b_of(g)); }};
}
/// A function of what is positive.
Operation of_positive(const char* name, Value (*f)(Value)) {
  return {name, {"x", "b"}, [f](GraphBuilder& g) {
            const Value x = x_of(g);
            return f(x * x + 0.5) * b_of(g);
          }};
}
Operation of_two(const char* name, Value (*f)(Value, Value)) {
  return {name, {"x", "other"}, [f](GraphBuilder& g) { return f(x_of(g), other_of(g)); }};
}

std::vector<Operation> operations() {
  const AttentionOptions heads{3, 1, 4, 0.5};
  return {
      {"matmul",
       {"x", "w"},
       [](GraphBuilder& g) { return matmul(x_of(g), g.weight("w", 7, kWidth)); }},
      {"rms_norm", {"x", "v"}, [](GraphBuilder& g) { return rms_norm(x_of(g), v_of(g), 1e-5); }},
      {"rms_norm with a unit offset",
       {"x", "v"},
       [](GraphBuilder& g) { return rms_norm(x_of(g), v_of(g), 1e-5, true); }},
      {"layer_norm",
       {"x", "v", "b"},
       [](GraphBuilder& g) { return layer_norm(x_of(g), v_of(g), b_of(g), 1e-5); }},
      {"swiglu", {"x", "other"}, [](GraphBuilder& g) { return swiglu(x_of(g), other_of(g)); }},
      {"geglu", {"x", "other"}, [](GraphBuilder& g) { return geglu(x_of(g), other_of(g)); }},
      {"rope",
       {"x"},
       [](GraphBuilder& g) {
         return rope(x_of(g), g.tokens("positions"), g.table("frequencies", 2), 1.5);
       }},
      {"head_norm",
       {"x", "head"},
       [](GraphBuilder& g) { return head_norm(x_of(g), g.vector("head", 4), 1e-5); }},
      {"softcap", {"x"}, [](GraphBuilder& g) { return softcap(x_of(g), 2); }},
      {"embedding",
       {"table"},
       [](GraphBuilder& g) { return embedding(g.tokens("ids"), g.weight("table", 10, 6)); }},
      {"attention",
       {"x", "k", "v"},
       [heads](GraphBuilder& g) {
         return attention(1.0 * x_of(g), 1.0 * g.activations("k", 4), 1.0 * g.activations("v", 4),
                          heads);
       }},
      {"cross_entropy",
       {"x"},
       [](GraphBuilder& g) {
         return cross_entropy(x_of(g), g.tokens("labels"), {-100, 0.1});
       }},
      {"z_loss", {"x"}, [](GraphBuilder& g) { return z_loss(x_of(g), g.tokens("labels")); }},
      {"total", {"x"}, [](GraphBuilder& g) { return total(sin(x_of(g))); }},
      {"factors of tokens",
       {"x", "t"},
       [](GraphBuilder& g) { return x_of(g) * g.token_scalars("t"); }},
      {"a factor of all", {"x", "s"}, [](GraphBuilder& g) { return x_of(g) * g.scalar("s"); }},
      activation("exp", exp),
      activation("tanh", tanh),
      activation("erf", erf),
      activation("sigmoid", sigmoid),
      activation("sin", sin),
      activation("cos", cos),
      activation("abs", abs),
      activation("neg", neg),
      activation("silu", [](Value x) { return x * sigmoid(x); }),
      activation("gelu", [](Value x) { return 0.5 * x * (1.0 + erf(x * std::sqrt(0.5))); }),
      activation("squared relu", [](Value x) { return where(x > 0, x * x, 0.0); }),
      activation("clamp", [](Value x) { return clamp(x, -1.0, 2.0); }),
      of_positive("log", log),
      of_positive("sqrt", sqrt),
      of_positive("rsqrt", rsqrt),
      of_two("add", add),
      of_two("sub", sub),
      of_two("mul", mul),
      of_two("min", min),
      of_two("max", max),
      of_two("div", [](Value a, Value b) { return a / (b * b + 0.5); }),
      of_two("where", [](Value a, Value b) { return where(a > b, a * a, b); }),
  };
}

TEST(Gradient, of_every_operation_reaches_all_operands) {
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    GraphBuilder g("operation");
    g.output("y", operation.make(g));
    const Graph graph = g.build();
    GraphCheck check;
    check.tokens = kTokens;
    check.of = {"y"};
    check.wrt = operation.operands;
    check.vocabulary = 10;
    check_graph(graph, check);  // right, and of finite differences
    rewrite::Options options;
    options.of = check.of, options.wrt = check.wrt;
    const Executor plan(rewrite::rewrite(graph.ir(), options), DType::f32, 1);
    PlanRun run(plan, kTokens);
    unsigned seed = 0;
    for (const rewrite::Buffer& buffer : plan.plan().buffers) {
      if (buffer.role != rewrite::Buffer::Role::input) continue;
      const int64_t count = execute::rows_of(plan.plan(), buffer, kTokens) * buffer.columns;
      const bool integers = !buffer.type.generic && !is_float(buffer.type.dtype);
      Numbers values = drawn(count, ++seed);
      for (int64_t i = 0; i < count && integers; ++i)
        values[static_cast<size_t>(i)] = static_cast<double>(3 * i % 10);
      run.set(buffer.name, values);
    }
    run.run();
    for (const std::string& operand : operation.operands)
      EXPECT_GT(largest(run.get("d_" + operand).values), 1e-3) << operand;
  }
}

/// Every subset of the gradients: the same bits of the loss, and of those gradients alone.
TEST(Gradient, only_those_asked_for_are_made) {
  GraphBuilder g("subsets");
  const Value logits =
      matmul(g.activations("x", kWidth), g.weight("head", 16, kWidth)) + g.vector("bias", 16);
  g.output("loss", total(cross_entropy(logits, g.tokens("labels"))));
  const Graph graph = g.build();
  const std::vector<std::string> all{"x", "head", "bias"};
  for (int64_t chunk : {0, 4}) {
    Matrices first;
    for (unsigned subset = 7; subset < 8; --subset) {  // from all of them to none
      rewrite::Options options;
      options.chunk_columns = chunk ? 16 : 0, options.chunk_rows = chunk;
      for (unsigned i = 0; i < 3; ++i)
        if (subset >> i & 1) options.wrt.push_back(all[i]);
      if (subset) options.of = {"loss"};
      const Executor plan(rewrite::rewrite(graph.ir(), options), DType::f32, 1);
      PlanRun run(plan, kTokens);
      run.set("x", drawn(kTokens * kWidth, 1));
      run.set("head", drawn(16 * kWidth, 2));
      run.set("bias", drawn(16, 3));
      run.set("labels", {3, 15, -100, 0, 7, 2, 2, 14, 9});
      if (subset) run.set("d_loss", {0.5});
      run.run();
      size_t outputs = 0;
      for (const rewrite::Buffer& buffer : plan.plan().buffers) {
        if (buffer.role != rewrite::Buffer::Role::output) continue;
        ++outputs;
        const Matrix made = run.get(buffer.name);
        if (subset == 7) first[buffer.name] = made;
        EXPECT_EQ(made.values, first.at(buffer.name).values) << buffer.name << " of " << subset;
      }
      EXPECT_EQ(outputs, 1 + options.wrt.size()) << subset;
    }
  }
}

/// Twice through arithmetic, norms and losses: the derivative of sum(d_x * direction) is that of
/// finite differences of d_x.
TEST(Gradient, of_a_gradient_is_right) {
  const std::vector<std::pair<const char*, std::function<Value(GraphBuilder&, Value)>>> functions{
      {"tanh", [](GraphBuilder&, Value x) { return x * tanh(x); }},
      {"silu", [](GraphBuilder&, Value x) { return x * sigmoid(x); }},
      {"rms_norm", [](GraphBuilder& g, Value x) { return rms_norm(x, v_of(g), 1e-5); }},
      {"layer_norm",
       [](GraphBuilder& g, Value x) { return layer_norm(x, v_of(g), b_of(g), 1e-5); }},
      {"cross_entropy",
       [](GraphBuilder& g, Value x) { return cross_entropy(x, g.tokens("labels")); }},
  };
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    GraphBuilder g("twice");
    g.output("y", function(g, x_of(g)));
    rewrite::Options once;
    once.of = {"y"}, once.wrt = {"x"};
    ir::Program gradient = rewrite::differentiate(rewrite::expand(g.build().ir()), once).graph;
    for (ir::Output& output : gradient.outputs)
      if (output.name == "d_x") output.name = "g";
    rewrite::Options again;
    again.of = {"g"}, again.wrt = {"x"};
    const ir::Program second = rewrite::differentiate(gradient, again).graph;
    Matrices inputs;
    unsigned seed = 0;
    for (const ir::Input& input : second.inputs) {
      Matrix& matrix = inputs[input.name] = shaped(input, kTokens);
      matrix.values = drawn(matrix.rows * matrix.columns, ++seed);
      for (size_t i = 0; i < matrix.values.size() && input.name == "labels"; ++i)
        matrix.values[i] = static_cast<double>(5 * i % kWidth);
    }
    const Matrix got = evaluate(second, inputs, kTokens).at("d_x");
    const Numbers direction = drawn(kTokens * kWidth, 99);
    const auto along = [&](const Numbers& a, const Numbers& b) {
      double sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      return sum;
    };
    const auto moved = [&](double h) {
      Matrices at = inputs;
      for (size_t i = 0; i < direction.size(); ++i) at["x"].values[i] += h * direction[i];
      return along(evaluate(gradient, at, kTokens).at("g").values, inputs.at("d_g").values);
    };
    constexpr double kStep = 1e-5;
    const double numeric = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    EXPECT_GT(std::fabs(numeric), 0.01);
    EXPECT_NEAR(along(got.values, direction), numeric, 1e-6 * std::fabs(numeric) + 1e-7);
  }
}

/// Weights in bf16, their gradient in float32: two backwards add to the 1 that is there.
TEST(Gradient, is_added_to_what_is_there_in_float32) {
  GraphBuilder g("adding");
  g.output("y", matmul(rms_norm(x_of(g), v_of(g), 1e-5), g.weight("w", 7, kWidth)));
  const Graph graph = g.build();
  for (bool fused : {true, false}) {
    rewrite::Options options;
    options.of = {"y"}, options.wrt = {"w", "v"}, options.fused = fused;
    const Executor plan(rewrite::rewrite(graph.ir(), options), DType::bf16, 1);
    const auto inputs = [](PlanRun& run) {
      run.set("x", drawn(kTokens * kWidth, 1));
      run.set("v", drawn(kWidth, 2));
      run.set("w", drawn(7 * kWidth, 3));
      run.set("d_y", drawn(kTokens * 7, 4, 0x1p-13));
    };
    PlanRun once(plan, kTokens), adding(plan, kTokens);
    inputs(once), inputs(adding);
    once.run();
    execute::Run accumulate;
    accumulate.accumulate = true;
    adding.set("d_w", Numbers(7 * kWidth, 1));
    adding.set("d_v", Numbers(kWidth, 1));
    adding.run(accumulate);
    adding.run(accumulate);
    for (const char* name : {"d_w", "d_v"}) {
      const Numbers gradient = once.get(name).values, sum = adding.get(name).values;
      EXPECT_GT(largest(gradient), 1e-5);
      EXPECT_LT(largest(gradient), 0x1p-8);  // of 1 in bf16 nothing would change
      for (size_t i = 0; i < sum.size(); ++i)
        EXPECT_NEAR(sum[i], 1 + 2 * gradient[i], 0x1p-22) << name << " " << i;
    }
  }
}

/// A linear behind a gated norm: a column that the gate makes 0 has a gradient of exactly 0.
TEST(Gradient, of_a_weight_has_the_zeros_of_its_operand) {
  for (bool fused : {true, false})
    for (DType type : {DType::f32, DType::bf16}) {
      GraphBuilder g("gated");
      const Value gate = g.activations("gate", kWidth);
      const Value h = rms_norm(x_of(g), v_of(g), 1e-5) * (gate * sigmoid(gate));
      g.output("y", matmul(h, g.weight("w", 10, kWidth)));
      rewrite::Options options;
      options.of = {"y"}, options.wrt = {"w"}, options.fused = fused;
      const Executor plan(rewrite::rewrite(g.build().ir(), options), type, 1);
      PlanRun run(plan, kTokens);
      run.set("x", drawn(kTokens * kWidth, 1));
      run.set("v", drawn(kWidth, 2));
      run.set("w", drawn(10 * kWidth, 3));
      run.set("d_y", drawn(kTokens * 10, 4));
      Numbers closed = drawn(kTokens * kWidth, 5);
      for (size_t i = 3; i < closed.size(); i += kWidth) closed[i] = 0;
      run.set("gate", closed);
      run.run();
      const Numbers gradient = run.get("d_w").values;
      for (size_t i = 0; i < gradient.size(); ++i)
        EXPECT_EQ(gradient[i] == 0, i % kWidth == 3) << i;
    }
}

/// Tokens of padding give their row of the table no gradient, but the head that it is as well does.
TEST(Gradient, of_padding_is_that_of_its_other_uses) {
  for (bool tied : {false, true}) {
    Matrices made[2];
    for (int64_t padding : {-1, 5}) {
      GraphBuilder g("padding");
      const Value table = g.weight("table", 10, kWidth);
      const Value x = embedding(g.tokens("ids"), table, padding);
      g.output("y", tied ? matmul(sin(x), table) : sin(x));
      rewrite::Options options;
      options.of = {"y"}, options.wrt = {"table"};
      const Executor plan(rewrite::rewrite(g.build().ir(), options), DType::f32, 1);
      PlanRun run(plan, 6);
      run.set("table", drawn(10 * kWidth, 1));
      run.set("ids", {5, 2, 5, 0, 9, 2});
      run.set("d_y", drawn(6 * (tied ? 10 : kWidth), 2));
      run.run();
      made[padding == 5] = {{"y", run.get("y")}, {"d", run.get("d_table")}};
    }
    EXPECT_EQ(made[0].at("y").values, made[1].at("y").values);
    for (int64_t row = 0; row < 10; ++row)
      for (int64_t j = 0; j < kWidth; ++j) {
        const double all = made[0].at("d").at(row, j), got = made[1].at("d").at(row, j);
        EXPECT_EQ(got == all, row != 5) << row;
        EXPECT_TRUE(row != 5 || tied || got == 0) << got;
      }
  }
}

}  // namespace
}  // namespace coda::test

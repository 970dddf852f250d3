// SPDX-License-Identifier: Apache-2.0
#include "rewrite/check_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "execute/executor.h"
#include "rewrite/graph_reference.h"
#include "rewrite/passes.h"
#include "rewrite/plan_run.h"

namespace coda::test {
namespace {

double largest(const Matrix& matrix) {
  double result = 0;
  for (double value : matrix.values) result = std::max(result, std::fabs(value));
  return result;
}

/// How far results in float32 may lie from those in float64: 6 standard deviations of what random
/// rounding of every operation does to them, the worst element of each tensor. It follows the
/// computation: where gradients cancel it is wide, where nothing does it is a few units of the last
/// place.
std::map<std::string, double> tolerances(const ir::Program& graph, const Matrices& inputs,
                                         const Matrices& want, const GraphCheck& options) {
  constexpr int kDraws = 16;
  std::map<std::string, std::vector<double>> squares;
  std::mt19937 rounding(options.seed + 1);
  for (int draw = 0; draw < kDraws; ++draw) {
    const Matrices drawn = evaluate(graph, inputs, options.tokens, options.sequences, &rounding);
    for (const auto& [name, matrix] : want) {
      std::vector<double>& sums = squares[name];
      sums.resize(matrix.values.size());
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] += std::pow(drawn.at(name).values[i] - matrix.values[i], 2);
    }
  }
  std::map<std::string, double> result;
  for (const auto& [name, sums] : squares) {
    double worst = 0;
    for (double sum : sums) worst = std::max(worst, sum);
    result[name] = 6 * std::sqrt(worst / kDraws) + 0x1p-120;
  }
  return result;
}

void compare(const Matrix& got, const Matrix& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.rows, want.rows) << what;
  ASSERT_EQ(got.columns, want.columns) << what;
  for (size_t i = 0; i < want.values.size(); ++i)
    ASSERT_LE(std::fabs(got.values[i] - want.values[i]), tolerance)
        << what << " element " << i << ": " << got.values[i] << " instead of " << want.values[i]
        << ", the largest of " << largest(want);
}

double dot(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

/// sum over `of` of <output, upstream>.
double objective(const ir::Program& graph, const Matrices& inputs, const Matrices& upstream,
                 const GraphCheck& options) {
  const Matrices outputs = evaluate(graph, inputs, options.tokens, options.sequences);
  double sum = 0;
  for (const std::string& name : options.of) sum += dot(outputs.at(name), upstream.at("d_" + name));
  return sum;
}

void check_finite_differences(const Graph& graph, const Matrices& inputs, const Matrices& upstream,
                              const Matrices& gradients, const GraphCheck& options) {
  std::mt19937 random(options.seed + 7);
  std::normal_distribution<double> normal;
  for (const auto& item : gradients) {
    const std::string& name = item.first;
    const Matrix& gradient = item.second;
    if (name.rfind("d_", 0) != 0 || !inputs.count(name.substr(2))) continue;
    for (int direction = 0; direction < 2; ++direction) {
      Matrix step = inputs.at(name.substr(2));
      for (double& value : step.values) value = direction == 1 && random() % 4 ? 0 : normal(random);
      Matrices moved = inputs;
      const auto at = [&](double t) {
        Matrix& matrix = moved.at(name.substr(2));
        for (size_t i = 0; i < step.values.size(); ++i)
          matrix.values[i] = inputs.at(name.substr(2)).values[i] + t * step.values[i];
        return objective(graph.ir(), moved, upstream, options);
      };
      constexpr double kStep = 1e-5;
      const auto slope = [&](double h) {
        return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      };
      // Where the second derivative jumps (a squared relu) differences are right to first order in
      // the step: what half the step changes tells how far off they are.
      const double numeric = slope(kStep / 2), change = std::fabs(numeric - slope(kStep));
      const double scale = std::sqrt(dot(gradient, gradient) * dot(step, step));
      EXPECT_NEAR(dot(gradient, step), numeric, 1e-6 * scale + 1e-9 + 4 * change) << name;
    }
  }
}

/// Sums over tokens are added to what is there, everything else replaces it.
void check_accumulation(const execute::Executor& executor, const Matrices& inputs,
                        const Matrices& want, const std::map<std::string, double>& tolerance,
                        const GraphCheck& options) {
  PlanRun plan(executor, options.tokens);
  plan.set(inputs);
  Matrices before;
  std::mt19937 random(options.seed + 2);
  std::normal_distribution<float> normal;
  for (const rewrite::Buffer& buffer : executor.plan().buffers) {
    if (buffer.role != rewrite::Buffer::Role::output || buffer.per_token) continue;
    Matrix& matrix = before[buffer.name] = want.at(buffer.name);
    const double scale = largest(matrix);
    for (double& value : matrix.values)
      value = static_cast<float>(scale * static_cast<double>(normal(random)));
    plan.set(buffer.name, matrix.values);
  }
  execute::Run run;
  run.sequences = options.sequences;
  run.accumulate = true;
  plan.run(run);
  // Every chunk adds to a sum as large as what was there and what comes.
  const int64_t chunks = options.chunk_columns ? options.tokens / options.chunk_rows + 1 : 1;
  for (const auto& [name, matrix] : want) {
    Matrix sum = matrix;
    double allowed = tolerance.at(name);
    if (const auto found = before.find(name); found != before.end()) {
      for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += found->second.values[i];
      allowed += static_cast<double>(chunks + 1) * 0x1p-24 *
                 (largest(found->second) + 2 * largest(matrix));
    }
    compare(plan.get(name), sum, allowed, "accumulated " + name);
  }
}

}  // namespace

Matrices draw(const ir::Program& graph, const GraphCheck& options) {
  std::mt19937 random(options.seed);
  std::normal_distribution<float> normal;
  Matrices result;
  for (const ir::Input& input : graph.inputs) {
    Matrix matrix = shaped(input, options.tokens);
    const bool integer = !input.type.generic && !is_float(input.type.dtype);
    for (size_t i = 0; i < matrix.values.size(); ++i) {
      float value = normal(random);
      if (input.weight_rows) value /= std::sqrt(static_cast<float>(matrix.columns));
      if (!input.dims.rows && !input.weight_rows) value = 1 + value / 4;
      if (integer && input.name == "positions")
        value = static_cast<float>(3 * i % 40);
      else if (integer)
        value = static_cast<float>(random() % static_cast<unsigned>(options.vocabulary));
      if (input.name == "labels" && i % 5 == 2) value = -100;
      matrix.values[i] = static_cast<double>(value);
    }
    result[input.name] = std::move(matrix);
  }
  return result;
}

rewrite::Options rewriting_of(const GraphCheck& check) {
  rewrite::Options rewriting;
  rewriting.of = check.of;
  rewriting.wrt = check.wrt;
  rewriting.chunk_columns = check.chunk_columns;
  rewriting.chunk_rows = check.chunk_rows;
  rewriting.late = check.late;
  return rewriting;
}

rewrite::Plan check_graph(const Graph& graph, const GraphCheck& options) {
  rewrite::Options rewriting = rewriting_of(options);
  // Gradients in float64, from the graph before any product is joined.
  const rewrite::Joint joint =
      rewrite::differentiate(ir::eliminate(rewrite::expand(graph.ir())), rewriting);
  Matrices inputs = draw(joint.graph, options);
  const Matrices want = evaluate(joint.graph, inputs, options.tokens, options.sequences);
  const Matrices plain = evaluate(graph.ir(), inputs, options.tokens, options.sequences);
  for (const auto& [name, matrix] : plain) {
    for (size_t i = 0; i < matrix.values.size(); ++i)
      EXPECT_NEAR(want.at(name).values[i], matrix.values[i], 1e-10 * largest(matrix) + 1e-13)
          << name;
  }
  if (!options.of.empty()) check_finite_differences(graph, inputs, inputs, want, options);
  rewrite::Plan result;
  for (const bool fused : {true, false}) {
    rewriting.fused = fused;
    const execute::Executor executor(rewrite::rewrite(graph.ir(), rewriting), DType::f32, 2);
    const auto tolerance = tolerances(rewrite::rewrite_graph(graph.ir(), rewriting).joint.graph,
                                      inputs, want, options);
    if (fused) result = executor.plan();
    for (const bool split : {false, true}) {  // in one run, or the backward steps later
      PlanRun plan(executor, options.tokens);
      plan.set(inputs);
      execute::Run run;
      run.sequences = options.sequences;
      if (split) {
        run.backward = false;
        plan.run(run);
        run.backward = true, run.forward = false;
      }
      plan.run(run);
      for (const auto& [name, matrix] : want)
        compare(plan.get(name), matrix, tolerance.at(name), (fused ? "fused " : "unfused ") + name);
    }
    check_accumulation(executor, inputs, want, tolerance, options);
  }
  return result;
}

}  // namespace coda::test

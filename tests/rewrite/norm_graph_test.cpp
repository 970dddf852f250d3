// SPDX-License-Identifier: Apache-2.0
// Norms in plans, in every type, fused and not: the number eps that was given, squares that
// overflow, weights of 1 + w, long sums, and where the residual stream rounds.
#include <coda/graph.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rewrite/plan_run.h"
#include "rewrite/rewrite.h"

namespace coda::test {
namespace {

using execute::Executor;
using Numbers = std::vector<double>;

/// Calls f(plan) for a graph fused and not, in each of the types.
template <class F>
void for_plans(const Graph& graph, std::initializer_list<DType> types, const F& f,
               rewrite::Options options = {}) {
  for (bool fused : {true, false})
    for (DType type : types) {
      SCOPED_TRACE(std::string(fused ? "fused, " : "unfused, ") + name_of(type));
      options.fused = fused;
      const Executor plan(rewrite::rewrite(graph.ir(), options), type, 2);
      f(plan, type);
    }
}

Graph norm(int64_t width, double eps, bool unit_offset = false) {
  GraphBuilder g("norm");
  g.output("y", rms_norm(g.activations("x", width), g.vector("w", width), eps, unit_offset));
  return g.build();
}

/// Of one row whose elements are `magnitude` in turn positive and negative.
double normed(const Executor& plan, int64_t width, double magnitude, double w = 1) {
  PlanRun run(plan, 1);
  Numbers x;
  for (int64_t j = 0; j < width; ++j) x.push_back(j % 3 ? magnitude : -magnitude);
  run.set("x", x);
  run.set("w", Numbers(static_cast<size_t>(width), w));
  run.run();
  return run.get("y").at(0, 1);
}

TEST(NormGraph, squares_of_f16_do_not_overflow) {
  for_plans(norm(128, 1e-6), {DType::f16},
            [](const Executor& plan, DType) { EXPECT_NEAR(normed(plan, 128, 300), 1, 0x1p-10); });
}

TEST(NormGraph, eps_is_the_number_given_in_every_type) {
  for_plans(
      norm(64, 1e-6), {DType::f32, DType::bf16, DType::f16}, [](const Executor& plan, DType type) {
        EXPECT_NEAR(normed(plan, 64, 0.0078125), 0.991907, type == DType::f32 ? 1e-6 : 0x1p-8);
      });
  for_plans(norm(64, 1e-3), {DType::f32}, [](const Executor& plan, DType) {
    EXPECT_NEAR(normed(plan, 64, 0.001), 0.031607, 1e-6);  // inside the root
  });
}

TEST(NormGraph, a_weight_of_one_plus_zero_is_one) {
  for_plans(norm(64, 1e-6, true), {DType::f32, DType::bf16}, [](const Executor& plan, DType type) {
    EXPECT_NEAR(normed(plan, 64, 0.5, 0), 1, type == DType::f32 ? 1e-5 : 0x1p-8);
    // 1 + 0.01171875 is made in float32; in bf16 it would be 1.015625 or 1.0078125.
    if (type == DType::f32) {
      EXPECT_NEAR(normed(plan, 64, 0.5, 0.01171875), 1.0117167, 1e-5);
    }
  });
}

TEST(NormGraph, a_weight_sums_gradients_of_many_rows_in_float32) {
  rewrite::Options options;
  options.of = {"y"}, options.wrt = {"w"};
  for_plans(
      norm(64, 1e-12), {DType::f32, DType::bf16},
      [](const Executor& plan, DType) {
        PlanRun run(plan, 4096);
        run.set("x", Numbers(4096 * 64, 1));
        run.set("w", Numbers(64, 1));
        run.set("d_y", Numbers(4096 * 64, 0x1p-9));
        run.run();
        for (double value : run.get("d_w").values) EXPECT_NEAR(value, 8, 1e-3);
      },
      options);
}

/// The stream is rounded where it is stored; sums over it are of what was stored nowhere.
TEST(NormGraph, statistics_are_of_the_sum_before_it_is_rounded) {
  GraphBuilder g("residual");
  const Value x = g.activations("x", 64) + g.activations("residual", 64);
  g.output("sum", x);
  g.output("y", rms_norm(x, g.vector("w", 64), 1e-6));
  g.output("squares", total(x * x));
  std::vector<Numbers> results;
  for_plans(g.build(), {DType::bf16}, [&](const Executor& plan, DType) {
    PlanRun run(plan, 4);
    run.set("x", Numbers(4 * 64, 1));
    run.set("residual", Numbers(4 * 64, 0x1p-9));
    run.set("w", Numbers(64, 1));
    run.run();
    EXPECT_EQ(run.get("sum").values, Numbers(4 * 64, 1));
    EXPECT_EQ(run.get("y").values, Numbers(4 * 64, 1));
    EXPECT_NEAR(run.number("squares"), 256 * std::pow(1 + 0x1p-9, 2), 1e-3);
  });
}

/// The upstream gradient feeds the residual branch and the norm; it stays as it is.
TEST(NormGraph, the_gradient_beside_a_residual_leaves_its_upstream) {
  GraphBuilder g("branches");
  const Value x = g.activations("x", 16);
  g.output("z", x + rms_norm(x, g.vector("w", 16), 1e-5));
  rewrite::Options options;
  options.of = {"z"}, options.wrt = {"x"};
  for_plans(
      g.build(), {DType::f32},
      [](const Executor& plan, DType) {
        PlanRun run(plan, 5);
        Numbers x, upstream;
        for (int i = 0; i < 5 * 16; ++i) {
          x.push_back(((37 * i + 11) % 101 - 50) / 32.0);
          upstream.push_back(((53 * i + 7) % 101 - 50) / 32.0);
        }
        run.set("x", x);
        run.set("w", Numbers(16, 0.75));
        run.set("d_z", upstream);
        run.run();
        EXPECT_EQ(run.get("d_z").values, upstream);
        const Numbers got = run.get("d_x").values;
        for (size_t i = 0; i < 5; ++i) {
          double squares = 0, dot = 0;
          for (size_t j = 0; j < 16; ++j) {
            squares += x[16 * i + j] * x[16 * i + j] / 16;
            dot += 0.75 * upstream[16 * i + j] * x[16 * i + j] / 16;
          }
          const double r = 1 / std::sqrt(squares + 1e-5);
          for (size_t j = 0; j < 16; ++j) {
            const double d = upstream[16 * i + j];
            EXPECT_NEAR(got[16 * i + j], d + r * (0.75 * d - x[16 * i + j] * r * r * dot), 2e-6);
          }
        }
      },
      options);
}

}  // namespace
}  // namespace coda::test

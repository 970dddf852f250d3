// SPDX-License-Identifier: Apache-2.0
// Float32 evaluations of single operations and of random expressions lie within the reference's
// bounds, and the bounds are not much wider than need be.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/builder.h"
#include "reference/reference.h"

namespace coda::reference {
namespace {

using ir::Columns;
using ir::Input;
using ir::Op;

const Columns kAll{Columns::Kind::all, ir::symbol_size(ir::kSymbolN), ir::Size{}};
const ir::Dims kTile{true, kAll};

namespace float32 {

using std::cos;
using std::erf;
using std::exp;
using std::log;
using std::sin;
using std::sqrt;
using std::tanh;
float absolute(float a) { return std::fabs(a); }
float quotient(float a, float b) { return a / b; }
float lesser(float a, float b) { return a != a ? a : b < a || b != b ? b : a; }
float greater(float a, float b) { return a != a ? a : b > a || b != b ? b : a; }
float rsqrt(float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }
float sigmoid(float a) { return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a)); }
float floor_remainder(float a, float b) { return a - std::floor(a / b) * b; }

float value(Op op, float a, float b, float c) {
  switch (op) {
#define CODA_OP(name_, arity_, kind_, ulps_, expression_, ...) \
  case Op::name_:                                              \
    return expression_;
#include <coda/elementwise.def>
  }
  return 0;
}

}  // namespace float32

Dense one_row(const std::vector<float>& values) {
  Dense result{1, static_cast<int64_t>(values.size()), {}, {}, {}};
  result.value.assign(values.begin(), values.end());
  return result;
}

bool is_integer_only(Op op) { return ir::info(op).kind == ir::OpKind::integer; }

TEST(Elementwise, each_float32_operation_is_within_its_bound_and_the_bound_is_tight) {
  std::mt19937_64 random(20);
  std::normal_distribution<float> normal(0, 3);
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (is_integer_only(info.op)) continue;
    std::vector<std::vector<float>> x(3, std::vector<float>(2000));
    for (auto& operand : x)
      for (float& v : operand) v = normal(random);
    ir::Builder builder("one");
    std::array<Value, 3> args;
    std::vector<Dense> inputs;
    for (int i = 0; i < info.arity; ++i) {
      args[i] = builder.input({std::string(1, "abc"[i]), Input::Kind::tensor, {}, kTile});
      inputs.push_back(one_row(x[i]));
    }
    if (info.kind == ir::OpKind::select) args[0] = args[0] > 0.5;
    const Value y = builder.elementwise(info.op, args);
    builder.output({"y", {}, kTile, y.id()});
    const ir::Program program = builder.finish();
    const std::vector<int64_t> symbols{2000, 1};
    const Dense result = evaluate(program, symbols, inputs, {})[0];
    for (size_t i = 0; i < 2000; ++i) {
      const float first = info.kind == ir::OpKind::select ? x[0][i] > 0.5f : x[0][i];
      const float got = float32::value(info.op, first, x[1][i], x[2][i]);
      const double want =
          result.value.empty() ? static_cast<double>(result.integer[i]) : result.value[i];
      const double error = result.error.empty() ? 0 : result.error[i];
      if (std::isnan(got)) {
        EXPECT_TRUE(std::isnan(want)) << info.name << " of " << x[0][i];
        continue;
      }
      EXPECT_LE(std::fabs(got - want), error) << info.name << " of " << x[0][i] << ", " << x[1][i];
      EXPECT_LE(error, (info.ulps + 0.01) * 0x1p-23 * std::fabs(want) + 0x1p-148) << info.name;
    }
  }
}

/// A random expression over the inputs, built in the IR and evaluated in float32 side by side.
struct Expression {
  explicit Expression(uint64_t seed) : random(seed) {
    std::normal_distribution<float> normal;
    for (int i = 0; i < 3; ++i) {
      std::vector<float> x(kCount);
      for (float& v : x) v = normal(random);
      add(builder.input({"x" + std::to_string(i), Input::Kind::tensor, {}, kTile}), x);
      inputs.push_back(one_row(x));
    }
    for (int i = 0; i < 12; ++i) grow();
  }

  void add(Value v, std::vector<float> x) {
    values.push_back(v);
    floats.push_back(std::move(x));
  }

  int pick() { return static_cast<int>(random() % values.size()); }

  void grow() {
    static constexpr Op kOps[] = {Op::add,  Op::sub, Op::mul,     Op::div, Op::neg, Op::abs,
                                  Op::min,  Op::max, Op::clamp,   Op::exp, Op::log, Op::sqrt,
                                  Op::tanh, Op::erf, Op::sigmoid, Op::sin, Op::cos, Op::rsqrt};
    const Op op = kOps[random() % std::size(kOps)];
    std::array<Value, 3> args;
    std::array<const std::vector<float>*, 3> x{};
    for (int i = 0; i < ir::info(op).arity; ++i) {
      const int id = pick();
      args[i] = values[id], x[i] = &floats[id];
    }
    std::vector<float> y(kCount);
    for (int i = 0; i < kCount; ++i)
      y[i] = float32::value(op, (*x[0])[i], x[1] ? (*x[1])[i] : 0, x[2] ? (*x[2])[i] : 0);
    add(builder.elementwise(op, args), std::move(y));
  }

  static constexpr int kCount = 200;
  std::mt19937_64 random;
  ir::Builder builder{"expression"};
  std::vector<Dense> inputs;
  std::vector<Value> values;
  std::vector<std::vector<float>> floats;
};

TEST(Elementwise, float32_evaluations_of_random_expressions_are_within_their_bounds) {
  int64_t checked = 0, meaningful = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Expression e(seed);
    for (size_t i = 3; i < e.values.size(); ++i)
      e.builder.output({"y" + std::to_string(i), {}, kTile, e.values[i].id()});
    const ir::Program program = e.builder.finish();
    const std::vector<int64_t> symbols{Expression::kCount, 1};
    const std::vector<Dense> results = evaluate(program, symbols, e.inputs, {});
    for (size_t o = 0; o < results.size(); ++o)
      for (int i = 0; i < Expression::kCount; ++i) {
        const double want = results[o].value[i];
        const double error = results[o].error.empty() ? 0 : results[o].error[i];
        const float got = e.floats[o + 3][i];
        ++checked;
        if (error == HUGE_VAL || (std::isnan(want) && std::isnan(got)) || want == got) continue;
        ASSERT_LE(std::fabs(got - want), error)
            << "seed " << seed << " output " << program.outputs[o].name << " element " << i << "\n"
            << dump(program);
        meaningful += error < 1e-3 * std::fabs(want);
      }
  }
  EXPECT_GT(meaningful, checked / 2);
}

/// One row of `x`, each off by `error`, through a program made by `build`.
template <class Build>
Dense through(std::vector<float> x, double error, const Build& build, DType type = DType::f32) {
  ir::Builder builder("p");
  const Value a = builder.input({"a", Input::Kind::tensor, {}, kTile});
  const Value y = build(builder, a);
  builder.output({"y", {}, kTile, y.id()});
  const ir::Program program = builder.finish();
  Dense input = one_row(x);
  input.error.assign(x.size(), error);
  const std::vector<int64_t> symbols{static_cast<int64_t>(x.size()), 1};
  return evaluate(program, symbols, std::vector<Dense>{input}, {.type = type})[0];
}

TEST(Elementwise, a_comparison_within_the_error_may_come_out_either_way) {
  const Dense mask = through({1.0f, 1.5f, 2.0f}, 0.1, [](auto&, Value a) { return a > 1.45; });
  EXPECT_EQ(mask.integer, (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(mask.error, (std::vector<double>{0, 1, 0}));
  const Dense chosen =
      through({1.0f, 1.5f, 2.0f}, 0.1, [](auto&, Value a) { return where(a > 1.45, a + 10, 3.0); });
  EXPECT_NEAR(chosen.error[0], 0, 1e-5);
  EXPECT_NEAR(chosen.error[1], 8.5, 0.2);
  EXPECT_NEAR(chosen.error[2], 0.1, 1e-5);
}

TEST(Elementwise, the_second_order_error_at_a_point_without_slope_is_kept) {
  const Dense square = through({0.0f}, 1e-3, [](auto&, Value a) { return a * a; });
  EXPECT_GE(square.error[0], 1e-6);
  EXPECT_LE(square.error[0], 3e-6);
}

TEST(Elementwise, dividing_by_what_may_be_zero_allows_anything) {
  const Dense y = through({1e-4f, 1.0f}, 1e-3, [](auto&, Value a) { return 1.0 / a; });
  EXPECT_EQ(y.error[0], HUGE_VAL);
  EXPECT_LT(y.error[1], 1.1e-3);
}

TEST(Elementwise, rounding_compares_both_ends_of_the_error) {
  const auto to_bf16 = [](ir::Builder& b, Value a) {
    return b.node(ir::Round{a.id(), {false, DType::bf16}});
  };
  const Dense near_tie = through({1.00390625f}, 1e-6, to_bf16);  // half way between 1 and 1 + 2^-7
  EXPECT_EQ(near_tie.value[0], 1.0);
  EXPECT_EQ(near_tie.error[0], 0x1p-7);
  const Dense far_from_tie = through({1.002f}, 1e-6, to_bf16);
  EXPECT_TRUE(far_from_tie.error.empty());
}

TEST(Elementwise, what_exceeds_float32_is_infinite_and_its_edge_is_uncertain) {
  const Dense y = through({88.7f, 88.7228f, 89.0f}, 0, [](auto&, Value a) { return exp(a); });
  EXPECT_LT(y.error[0], 1e33);
  const double edge = 3.4028234663852886e38;
  EXPECT_EQ(y.value[2], HUGE_VAL);
  EXPECT_EQ(y.error[2], 0);
  const Dense at_edge =
      through({static_cast<float>(edge)}, 0, [](auto&, Value a) { return a * 1.00000001; });
  EXPECT_EQ(at_edge.error[0], HUGE_VAL);
}

TEST(Elementwise, exact_mode_neither_rounds_nor_overflows_and_finds_kinks) {
  ir::Builder builder("p");
  const Value a = builder.input({"a", Input::Kind::tensor, {}, kTile});
  const Value r = builder.node(ir::Round{a.id(), {false, DType::bf16}});
  builder.output({"y", {}, kTile, (abs(r - 1) * 0.1).id()});
  const ir::Program program = builder.finish();
  Dense x{1, 2, {1.001, 5}, {}, {}};
  double kink = HUGE_VAL;
  const std::vector<int64_t> symbols{2, 1};
  const Dense y = evaluate(program, symbols, std::vector<Dense>{x},
                           {.mode = Mode::exact, .nearest_kink = &kink})[0];
  EXPECT_DOUBLE_EQ(y.value[1], 4 * 0.1);
  EXPECT_NEAR(kink, 0.001, 1e-12);
}

TEST(Elementwise, integers_are_exact_beyond_float64) {
  ir::Builder builder("p");
  const Value i = builder.input({"i", Input::Kind::tensor, {false, DType::i64}, kTile});
  builder.output({"sum", {false, DType::i64}, kTile, (i + 1).id()});
  builder.output({"rest", {false, DType::i64}, kTile, (i % 7).id()});
  builder.output({"real", {}, kTile, (i * 1.0).id()});
  builder.output({"equal", {false, DType::u8}, kTile, eq(i, (int64_t{1} << 60) + 1).id()});
  const ir::Program program = builder.finish();
  Dense x{1, 3, {}, {}, {(int64_t{1} << 60) + 1, int64_t{1} << 60, -3}};
  const std::vector<int64_t> symbols{3, 1};
  const auto y = evaluate(program, symbols, std::vector<Dense>{x}, {});
  EXPECT_EQ(y[0].integer[0], (int64_t{1} << 60) + 2);
  EXPECT_EQ(y[1].integer,
            (std::vector<int64_t>{((int64_t{1} << 60) + 1) % 7, (int64_t{1} << 60) % 7, 4}));
  EXPECT_EQ(y[2].value[0], 0x1p60);
  EXPECT_EQ(y[3].integer, (std::vector<int64_t>{1, 0, 0}));
}

TEST(Elementwise, the_angle_of_a_position_is_kept_as_two_floats) {
  ir::Builder builder("rope");
  const Value pos = builder.input({"pos", Input::Kind::tensor, {false, DType::i32}, kTile});
  const Value freq = builder.input({"freq", Input::Kind::tensor, {}, kTile});
  const Value t = pos * freq;
  builder.output({"s", {}, kTile, sin(t).id()});
  builder.output({"c", {}, kTile, cos(t * 1.0).id()});  // no product of an integer: float32
  const ir::Program program = builder.finish();
  const float f = 0.7853982f;
  const std::vector<int64_t> symbols{2, 1};
  const std::vector<Dense> inputs{Dense{1, 2, {}, {}, {1 << 20, 12345}}, one_row({f, f})};
  const auto y = evaluate(program, symbols, inputs, {});
  for (int i = 0; i < 2; ++i) {
    const double angle = static_cast<double>(inputs[0].integer[i]) * static_cast<double>(f);
    EXPECT_DOUBLE_EQ(y[0].value[i], std::sin(angle));
    EXPECT_LE(y[0].error[i], 0x1.6p-22);
    EXPECT_GE(y[1].error[i], 1e-6);
  }
}

}  // namespace
}  // namespace coda::reference

// SPDX-License-Identifier: Apache-2.0
// Dimensions, pairs, reductions, products and the comparison with memory, by hand.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "base/convert.h"
#include "ir/builder.h"
#include "reference/reference.h"

namespace coda::reference {
namespace {

using ir::Columns;
using ir::Input;
using ir::ReduceOp;
using ir::Size;

const Size kN = ir::symbol_size(ir::kSymbolN);
const Columns kAll{Columns::Kind::all, kN, Size{}};
const ir::Dims kTile{true, kAll};

Columns groups(int64_t size) { return {Columns::Kind::group, kN, ir::constant_size(size)}; }
Columns repeats(int64_t size) { return {Columns::Kind::repeat, kN, ir::constant_size(size)}; }

Dense counting(int64_t rows, int64_t columns) {
  Dense x{rows, columns, {}, {}, {}};
  for (int64_t i = 0; i < rows * columns; ++i) x.value.push_back(static_cast<double>(i));
  return x;
}

/// A [rows, columns] input through `build`, stored over `dims`.
template <class Build>
Dense apply(const Dense& x, const ir::Dims& dims, const Build& build, bool integer = false,
            Mode mode = Mode::contract) {
  ir::Builder builder("p");
  const Value a = builder.input({"a", Input::Kind::tensor, {}, kTile});
  builder.output({"y", {false, integer ? DType::i64 : DType::f32}, dims, build(builder, a).id()});
  const ir::Program program = builder.finish();
  const std::vector<int64_t> symbols{x.columns, x.rows};
  return evaluate(program, symbols, std::vector<Dense>{x}, {.mode = mode})[0];
}

Dense reduced(const Dense& x, ReduceOp op, const ir::Dims& kept) {
  return apply(
      x, kept, [&](ir::Builder& b, Value a) { return b.reduce(op, kept, a); },
      op == ReduceOp::argmax);
}

using V = std::vector<double>;

TEST(Pairs, split_join_and_swap_move_columns_within_their_groups) {
  const Dense x = counting(1, 8);
  const Size h = ir::constant_size(2);
  const ir::Dims half{true, {Columns::Kind::all, kN / ir::constant_size(2), Size{}}};
  const auto part = [&](int i) {
    return apply(x, half,
                 [&](ir::Builder& b, Value a) {
                   return b.node(ir::Split{a.id(), h, i});
                 })
        .value;
  };
  EXPECT_EQ(part(0), (V{0, 1, 4, 5}));
  EXPECT_EQ(part(1), (V{2, 3, 6, 7}));
  const Dense joined = apply(x, kTile, [&](ir::Builder& b, Value a) {
    const Value p = b.node(ir::Split{a.id(), h, 0}), q = b.node(ir::Split{a.id(), h, 1});
    return b.node(ir::Join{q.id(), p.id(), ir::constant_size(1)});
  });
  EXPECT_EQ(joined.value, (V{2, 0, 3, 1, 6, 4, 7, 5}));
  const Dense filled = apply(x, kTile, [&](ir::Builder& b, Value a) {
    return b.node(ir::Join{b.node(ir::Split{a.id(), h, 0}).id(), b.real(-1).id(), h});
  });
  EXPECT_EQ(filled.value, (V{0, 1, -1, -1, 4, 5, -1, -1}));
  const Dense swapped = apply(x, kTile, [&](ir::Builder& b, Value a) {
    return b.node(ir::Swap{a.id(), ir::constant_size(1), ir::constant_size(4)});
  });
  EXPECT_EQ(swapped.value, (V{1, 0, 2, 3, 5, 4, 6, 7}));
}

TEST(Pairs, sizes_that_do_not_divide_are_refused) {
  EXPECT_THROW(apply(counting(1, 6), kTile,
                     [](ir::Builder& b, Value a) {
                       return b.node(ir::Swap{a.id(), ir::constant_size(1), ir::constant_size(4)});
                     }),
               Error);
  EXPECT_THROW(reduced(counting(1, 6), ReduceOp::sum, {true, groups(4)}), Error);
}

TEST(Reduce, every_kept_set_of_a_small_matrix) {
  const Dense x = counting(2, 4);
  EXPECT_EQ(reduced(x, ReduceOp::sum, {true, {}}).value, (V{6, 22}));
  EXPECT_EQ(reduced(x, ReduceOp::sum, {false, kAll}).value, (V{4, 6, 8, 10}));
  EXPECT_EQ(reduced(x, ReduceOp::sum, {}).value, (V{28}));
  EXPECT_EQ(reduced(x, ReduceOp::sum, {true, groups(2)}).value, (V{1, 5, 9, 13}));
  EXPECT_EQ(reduced(x, ReduceOp::sum, {true, repeats(2)}).value, (V{2, 4, 10, 12}));
  EXPECT_EQ(reduced(x, ReduceOp::max, {false, groups(2)}).value, (V{5, 7}));
  EXPECT_EQ(reduced(x, ReduceOp::min, {false, repeats(2)}).value, (V{0, 1}));
  EXPECT_EQ(reduced(x, ReduceOp::mean, {true, {}}).value, (V{1.5, 5.5}));
  EXPECT_EQ(reduced(x, ReduceOp::moments_var, {true, {}}).value, (V{1.25, 1.25}));
  EXPECT_EQ(reduced(x, ReduceOp::argmax, {true, {}}).integer, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(reduced(x, ReduceOp::argmax, {false, kAll}).integer,
            (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(reduced(x, ReduceOp::argmax, {}).integer, (std::vector<int64_t>{7}));
  EXPECT_EQ(reduced(x, ReduceOp::argmax, {true, groups(2)}).integer,
            (std::vector<int64_t>{1, 3, 1, 3}));
  EXPECT_NEAR(reduced(x, ReduceOp::logsumexp, {true, {}}).value[0], 3.4401896985611953, 1e-14);
}

TEST(Reduce, a_value_is_reduced_over_the_elements_it_has) {
  const Dense x = counting(3, 4);
  const Dense rows = apply(x, {}, [](ir::Builder& b, Value) {
    return b.reduce(ReduceOp::sum, {}, b.node(ir::Index{true}) * 1.0);
  });
  EXPECT_EQ(rows.value, (V{3}));  // 0 + 1 + 2, not times the columns
  const Dense spread = apply(x, {false, kAll}, [](ir::Builder& b, Value) {
    return b.reduce(ReduceOp::sum, {false, kAll}, b.node(ir::Index{true}) * 1.0);
  });
  EXPECT_EQ(spread.value, (V{3, 3, 3, 3}));
  const Dense of_groups = apply(x, {true, {}}, [](ir::Builder& b, Value a) {
    return b.reduce(ReduceOp::sum, {true, {}}, b.reduce(ReduceOp::max, {true, groups(2)}, a));
  });
  EXPECT_EQ(of_groups.value, (V{4, 12, 20}));
  const Dense wider = apply(x, {true, groups(4)}, [](ir::Builder& b, Value a) {
    return b.reduce(ReduceOp::sum, {true, groups(4)},
                    b.reduce(ReduceOp::max, {true, groups(2)}, a));
  });
  EXPECT_EQ(wider.value, (V{8, 24, 40}));  // groups count once a column here
}

TEST(Reduce, of_nothing_gives_the_neutral_element) {
  const Dense none{0, 4, {}, {}, {}};
  const ir::Dims columns{false, kAll};
  EXPECT_EQ(reduced(none, ReduceOp::sum, columns).value, V(4, 0));
  EXPECT_EQ(reduced(none, ReduceOp::max, columns).value, V(4, -HUGE_VAL));
  EXPECT_EQ(reduced(none, ReduceOp::min, columns).value, V(4, HUGE_VAL));
  EXPECT_EQ(reduced(none, ReduceOp::logsumexp, columns).value, V(4, -HUGE_VAL));
  EXPECT_TRUE(std::isnan(reduced(none, ReduceOp::mean, columns).value[3]));
  EXPECT_TRUE(std::isnan(reduced(none, ReduceOp::moments_var, columns).value[3]));
  EXPECT_EQ(reduced(none, ReduceOp::argmax, columns).integer, std::vector<int64_t>(4, -1));
  const auto integers = [](ReduceOp op) {
    return [op](ir::Builder& b, Value) {
      return b.reduce(op, {false, kAll}, b.node(ir::Index{true}) + b.node(ir::Index{false}));
    };
  };
  EXPECT_EQ(apply(none, columns, integers(ReduceOp::sum), true).integer,
            std::vector<int64_t>(4, 0));
  EXPECT_EQ(apply(none, columns, integers(ReduceOp::max), true).integer,
            std::vector<int64_t>(4, std::numeric_limits<int64_t>::min()));
}

TEST(Reduce, nan_and_infinities_pass_as_documented) {
  Dense x = counting(1, 4);
  x.value[1] = std::nan("");
  EXPECT_TRUE(std::isnan(reduced(x, ReduceOp::max, {true, {}}).value[0]));
  EXPECT_EQ(reduced(x, ReduceOp::argmax, {true, {}}).integer[0], 1);
  EXPECT_TRUE(std::isnan(reduced(x, ReduceOp::logsumexp, {true, {}}).value[0]));
  x.value[1] = HUGE_VAL;
  const Dense infinite = reduced(x, ReduceOp::logsumexp, {true, {}});
  EXPECT_EQ(infinite.value[0], HUGE_VAL);
  EXPECT_TRUE(infinite.error.empty());
  x.value.assign(4, -HUGE_VAL);
  EXPECT_EQ(reduced(x, ReduceOp::logsumexp, {true, {}}).value[0], -HUGE_VAL);
}

TEST(Reduce, an_argmax_within_the_error_spans_its_candidates) {
  Dense x{1, 5, {3, 1, 2.95, 0, 2}, {0.1, 0.1, 0.1, 0.1, 0.1}, {}};
  const Dense y = reduced(x, ReduceOp::argmax, {true, {}});
  EXPECT_EQ(y.integer[0], 0);
  EXPECT_EQ(y.error[0], 2);
  x.error.clear();
  x.value[2] = 3;  // exact ties go to the lowest index
  EXPECT_TRUE(reduced(x, ReduceOp::argmax, {true, {}}).error.empty());
}

TEST(Reduce, the_variance_of_a_large_mean_is_right_and_its_bound_refuses_the_short_cut) {
  constexpr int64_t h = 769, rows = 33;
  Dense x{rows, h, {}, {}, {}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < h; ++c)
      x.value.push_back(1000.0 + 100.0 * static_cast<double>(r) +
                        static_cast<double>(c % 17 - 8) / 8);
  const Dense y = reduced(x, ReduceOp::moments_var, {true, {}});
  for (int64_t r = 0; r < rows; ++r) {
    EXPECT_NEAR(y.value[r], 0.376567, 1e-6);
    EXPECT_LT(y.error[r], 0.05);
    // Welford's recurrence in float32 stays inside, mean(x^2) - mean(x)^2 does not.
    float mean = 0, squares = 0, plain = 0, plain_squares = 0;
    for (int64_t c = 0; c < h; ++c) {
      const float v = static_cast<float>(x.value[r * h + c]), d = v - mean;
      mean += d / static_cast<float>(c + 1);
      squares += d * (v - mean);
      plain += v, plain_squares += v * v;
    }
    EXPECT_LE(std::fabs(squares / h - y.value[r]), y.error[r]) << "row " << r;
    const float bad = plain_squares / h - (plain / h) * (plain / h);
    EXPECT_GT(std::fabs(bad - y.value[r]), y.error[r]) << "row " << r;
  }
}

TEST(Reduce, float32_reductions_of_random_rows_are_within_their_bounds) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(2, 3);
  for (int64_t n : {1, 7, 100, 1160}) {
    Dense x{1, n, {}, {}, {}};
    for (int64_t i = 0; i < n; ++i) x.value.push_back(normal(random));
    float sum = 0, top = -HUGE_VALF, s = 0;
    for (double d : x.value) {
      const float v = static_cast<float>(d);
      sum += v;
      const float next = std::max(top, v);
      s = s * std::exp(top - next) + std::exp(v - next);
      top = next;
    }
    const Dense total = reduced(x, ReduceOp::sum, {true, {}});
    EXPECT_LE(std::fabs(sum - total.value[0]), total.error[0]);
    EXPECT_LE(total.error[0], 1e-5 * std::fabs(total.value[0]) + 1e-5);
    const Dense lse = reduced(x, ReduceOp::logsumexp, {true, {}});
    EXPECT_LE(std::fabs(top + std::log(s) - lse.value[0]), lse.error[0]) << n;
    EXPECT_LE(lse.error[0], 2e-5);
  }
}

TEST(Product, blocked_multiplication_is_that_of_the_definition) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (const auto [m, n, k] :
       {std::array<int64_t, 3>{5, 35, 17}, {1, 1, 1}, {4, 16, 8}, {3, 17, 0}}) {
    V a(m * k), b(n * k);
    for (double& v : a) v = normal(random);
    for (double& v : b) v = normal(random);
    Dense y{m, n, V(m * n, 0.5), {}, {}};
    add_product(a, b, k, 0x1p-22, y);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0.5, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += a[i * k + p] * b[j * k + p];
          size += std::fabs(a[i * k + p] * b[j * k + p]);
        }
        EXPECT_NEAR(y.value[i * n + j], sum, 1e-13);
        EXPECT_NEAR(y.error[i * n + j], size * 0x1p-22, 1e-18);
      }
  }
}

struct Stored {
  DType type;
  double value, error, memory;
  bool ok;
};

// What a tensor core does: 16 exact products at a time, and the running sum towards zero.
TEST(Product, a_long_sum_that_is_truncated_is_within_its_bound_and_the_bound_is_tight) {
  constexpr int64_t kRows = 12, kColumns = 20, kDepth = 16384;
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  V a(kRows * kDepth), b(kColumns * kDepth);
  const auto draw = [&] {  // a bf16
    return std::bit_cast<float>(std::bit_cast<uint32_t>(normal(random)) & 0xffff0000u);
  };
  std::generate(a.begin(), a.end(), draw);
  std::generate(b.begin(), b.end(), draw);
  Dense plain{kRows, kColumns, V(kRows * kColumns), {}, {}}, bounded = plain;
  add_product(a, b, kDepth, 0x1p-22, plain);
  add_long_product(a, b, kDepth, 0x1p-22, bounded);
  double worst = 0, worst_plain = 0;
  for (size_t i = 0; i < plain.value.size(); ++i) {
    const double *const x = &a[i / kColumns * kDepth], *const y = &b[i % kColumns * kDepth];
    double sum = 0;
    for (int64_t k = 0; k < kDepth; k += 16) {
      sum = std::inner_product(x + k, x + k + 16, y + k, sum);
      auto truncated = static_cast<float>(sum);
      if (std::fabs(static_cast<double>(truncated)) > std::fabs(sum))
        truncated = std::nextafter(truncated, 0.0f);
      sum = truncated;
    }
    EXPECT_NEAR(bounded.value[i], plain.value[i], 1e-9);
    const double error = std::fabs(sum - plain.value[i]);
    EXPECT_LE(error, bounded.error[i]);
    EXPECT_GE(bounded.error[i], plain.error[i]);
    worst = std::max(worst, error / bounded.error[i]);
    worst_plain = std::max(worst_plain, error / plain.error[i]);
  }
  EXPECT_GT(worst, 0.3);
  EXPECT_GT(worst_plain, 1);  // the bound of short sums does not hold
}

TEST(Compare, accepts_what_a_store_may_give_and_nothing_else) {
  const double inf = HUGE_VAL, nan = std::nan("");
  const Stored cases[] = {
      {DType::f32, 1.0, 0, 1.0, true},
      {DType::f32, 1.0, 0, 1.0 + 0x1p-23, true},
      {DType::f32, 1.0, 0, 1.0 + 0x1p-22, false},
      {DType::f32, 1.0, 1e-3, 1.0009, true},
      {DType::f32, 1.0, 1e-3, 1.0011, false},
      {DType::bf16, 1.0, 0, 1.0 + 0x1p-7, true},
      {DType::bf16, 1.0, 0, 1.0 + 0x1p-6, false},
      {DType::f32, nan, 0, nan, true},
      {DType::f32, nan, 0, 1, false},
      {DType::f32, 1, 0.1, nan, false},
      {DType::f32, 1, inf, nan, true},
      {DType::f32, inf, 0, inf, true},
      {DType::f32, inf, 0, 3e38, false},
      {DType::f32, inf, 0, -inf, false},
      {DType::f32, 0, 0, 1e-30, false},
      {DType::f32, 0, 0, 1e-37, true},
      {DType::f16, 70000, 0, inf, true},
      {DType::f16, 70000, 0, 65504, false},
      {DType::f16, 65519, 2, inf, true},
      {DType::f16, 60000, 2, inf, false},
      {DType::e4m3, 1000, 0, 448, true},
      {DType::e4m3, 1000, 0, 352, false},
      {DType::e4m3, inf, 0, 448, true},
      {DType::e4m3, inf, 0, -448, false},
      {DType::e5m2, 60000, 0, 57344, true},
      {DType::e5m2, 1.0, 0, 1.5, false},
      {DType::i32, 5e9, 0, 2147483647, true},
      {DType::u8, -3, 0, 0, true},
      {DType::u8, 7, 0, 8, false},
      {DType::i64, 7, 2, 9, true},
      {DType::i64, 7, 2, 10, false},
  };
  for (const Stored& c : cases) {
    alignas(8) std::byte memory[8] = {};
    store_element(memory, c.type, c.memory);
    Binding output{Axis::columns, 1, 1, {{0, 1, {memory, 1, 1, c.type}}}};
    Dense expected{1, 1, {c.value}, {c.error}, {}};
    if (!is_float(c.type)) expected = {1, 1, {}, {c.error}, {static_cast<int64_t>(c.value)}};
    const Comparison result = compare(output, expected);
    EXPECT_EQ(result.ok(), c.ok) << name_of(c.type) << " " << c.value << " +- " << c.error << ": "
                                 << c.memory << ": " << to_string(result);
  }
}

TEST(Compare, names_the_worst_element_of_a_segmented_output) {
  std::vector<float> left(2 * 3, 1.0f), right(2 * 4, 1.0f);
  right[1 * 4 + 2] = 1.5f;
  Binding output{Axis::columns, 2, 5, {}};
  output.segments.push_back({0, 3, {reinterpret_cast<std::byte*>(left.data()), 3, 1, DType::f32}});
  output.segments.push_back({3, 5, {reinterpret_cast<std::byte*>(right.data()), 4, 2, DType::f32}});
  const Comparison result = compare(output, Dense{2, 5, V(10, 1.0), {}, {}});
  EXPECT_EQ(result.failures, 1);
  EXPECT_EQ(result.row, 1);
  EXPECT_EQ(result.column, 4);
  EXPECT_NE(to_string(result).find("element [1, 4] is 1.5, expected 1"), std::string::npos);
}

}  // namespace
}  // namespace coda::reference

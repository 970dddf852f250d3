// SPDX-License-Identifier: Apache-2.0
//
// The float functions against the float64 library, over the float32 bit patterns themselves.
//
// Default: one pattern out of each run of 1024, at a varying place, and all patterns near the
// edges of binades. With CODA_EXHAUSTIVE=1: all 2^32, some minutes on two processors. Both print
// the largest error found, and hold it to the bounds that math.h states.
#include "cpu/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace math = coda::math;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

bool exhaustive() {
  const char* value = std::getenv("CODA_EXHAUSTIVE");
  return value != nullptr && std::string(value) == "1";
}

/// One ulp of float32 at `x`, denormals included.
double ulp_at(double x) {
  const auto biased = static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff);
  int exponent = (biased - 1023 < -126 ? -126 : biased - 1023) - 23;
  if (exponent > 104) exponent = 104;  // beyond the largest float, its ulp
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// Error of `y` in ulp; infinity stands at 2^128, where the next float would be. A NaN, an
/// infinity or a sign that is wrong counts as an infinite error.
double error_in_ulp(float y, double exact) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (exact != exact || y != y) return (exact != exact) == (y != y) ? 0 : wrong;
  if (std::signbit(y) != std::signbit(exact)) return wrong;
  const double edge = 0x1p128;
  const double size = std::fabs(exact) < edge ? std::fabs(exact) : edge;
  const double got = std::isinf(y) ? edge : static_cast<double>(std::fabs(y));
  if (std::isinf(exact) && !std::isinf(y)) return wrong;
  return std::fabs(got - size) / ulp_at(size);
}

struct Worst {
  double error = -1;
  float at = 0;

  void take(double e, float x) {
    if (e > error) {
      error = e;
      at = x;
    }
  }
};

constexpr std::size_t block = 4096;
using Inputs = std::array<float, block>;

/// The k-th of `block_count()` blocks of inputs.
std::uint64_t block_count() {
  return exhaustive() ? (1ull << 32) / block : (1ull << 22) / block + 512;
}

void fill_inputs(std::uint64_t k, Inputs& x) {
  for (std::size_t i = 0; i < block; ++i) {
    std::uint32_t bits;
    if (exhaustive()) {
      bits = static_cast<std::uint32_t>(k * block + i);
    } else if (k < 512) {
      // The 4096 patterns around the start of each of the 512 signed binades.
      bits = static_cast<std::uint32_t>((k << 23) + i - block / 2);
    } else {
      const auto j = static_cast<std::uint32_t>((k - 512) * block + i);
      bits = (j << 10) + ((j * 0x9e3779b1u) >> 22);
    }
    x[i] = std::bit_cast<float>(bits);
  }
}

/// Largest error of `loop` (block in, block out) against `exact` (one float64).
template <class Loop, class Exact>
Worst sweep(Loop loop, Exact exact) {
  constexpr unsigned threads = 2;
  std::array<Worst, threads> worst;
  std::vector<std::thread> pool;
  for (unsigned id = 0; id < threads; ++id) {
    pool.emplace_back([&, id] {
      Inputs x;
      Inputs y;
      Worst mine;
      for (std::uint64_t k = id; k < block_count(); k += threads) {
        fill_inputs(k, x);
        loop(x.data(), y.data());
        for (std::size_t i = 0; i < block; ++i) {
          mine.take(error_in_ulp(y[i], exact(static_cast<double>(x[i]))), x[i]);
        }
      }
      worst[id] = mine;
    });
  }
  for (std::thread& t : pool) t.join();
  worst[0].take(worst[1].error, worst[1].at);
  return worst[0];
}

void expect_within(const char* name, Worst worst, double bound) {
  std::printf("%-8s largest error %.4f ulp at %a\n", name, worst.error,
              static_cast<double>(worst.at));
  EXPECT_LE(worst.error, bound) << name << " at " << worst.at;
}

// A macro, as the loop must see the function itself to vectorise.
#define LOOP_OVER(function)                                                    \
  [](const float* x, float* y) {                                               \
    for (std::size_t i = 0; i < block; ++i) y[i] = coda::math::function(x[i]); \
  }

double exact_sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

TEST(math_accuracy, sqrt_is_correctly_rounded) {
  // float64 sqrt rounds once more, by at most 2^-29 of a float ulp.
  expect_within("sqrt", sweep(LOOP_OVER(sqrt), [](double x) { return std::sqrt(x); }), 0.5000001);
}

TEST(math_accuracy, rsqrt) {
  expect_within("rsqrt", sweep(LOOP_OVER(rsqrt), [](double x) { return 1 / std::sqrt(x); }),
                0.5001);
}

TEST(math_accuracy, exp) {
  expect_within("exp", sweep(LOOP_OVER(exp), [](double x) { return std::exp(x); }), 0.99);
}

TEST(math_accuracy, log) {
  const auto exact = [](double x) { return x == 0 ? -HUGE_VAL : std::log(x); };
  expect_within("log", sweep(LOOP_OVER(log), exact), 0.81);
}

TEST(math_accuracy, sigmoid) {
  expect_within("sigmoid", sweep(LOOP_OVER(sigmoid), exact_sigmoid), 1.54);
}

TEST(math_accuracy, tanh) {
  expect_within("tanh", sweep(LOOP_OVER(tanh), [](double x) { return std::tanh(x); }), 1.34);
}

TEST(math_accuracy, erf) {
  expect_within("erf", sweep(LOOP_OVER(erf), [](double x) { return std::erf(x); }), 1.40);
}

TEST(math_accuracy, sin_in_its_range) {
  const auto exact = [](double x) { return std::fabs(x) <= 0x1p30 ? std::sin(x) : NAN; };
  expect_within("sin", sweep(LOOP_OVER(sin), exact), 0.501);
}

TEST(math_accuracy, cos_in_its_range) {
  const auto exact = [](double x) { return std::fabs(x) <= 0x1p30 ? std::cos(x) : NAN; };
  expect_within("cos", sweep(LOOP_OVER(cos), exact), 0.501);
}

TEST(math_accuracy, sin_of_any_float) {
  const auto loop = [](const float* x, float* y) { math::sin_block(x, y, block); };
  expect_within("sin any", sweep(loop, [](double x) { return std::sin(x); }), 0.501);
}

TEST(math_accuracy, cos_of_any_float) {
  const auto loop = [](const float* x, float* y) { math::cos_block(x, y, block); };
  expect_within("cos any", sweep(loop, [](double x) { return std::cos(x); }), 0.501);
}

TEST(math_accuracy, products) {
  // |i| <= 2^20 and |f| <= 2^10: the product is exact in float64.
  std::mt19937_64 random(7);
  std::uniform_int_distribution<std::int64_t> position(-(1 << 20), 1 << 20);
  std::uniform_real_distribution<float> exponent(-30.0f, 10.0f);
  std::vector<std::int64_t> i(block);
  std::vector<float> f(block);
  std::vector<float> s(block);
  std::vector<float> c(block);
  std::vector<float> in_place(block);
  Worst worst_sin;
  Worst worst_cos;
  for (int round = 0; round < 500; ++round) {
    for (std::size_t k = 0; k < block; ++k) {
      i[k] = position(random);
      f[k] = std::exp2(exponent(random)) * (random() % 2 == 0 ? 1.0f : -1.0f);
    }
    for (std::size_t k = 0; k < block; ++k) s[k] = math::sin_product(i[k], f[k]);
    for (std::size_t k = 0; k < block; ++k) c[k] = math::cos_product(i[k], f[k]);
    std::copy(f.begin(), f.end(), in_place.begin());
    math::sin_product_block(i.data(), in_place.data(), in_place.data(), block);
    EXPECT_EQ(in_place, s);
    for (std::size_t k = 0; k < block; ++k) {
      const double angle = static_cast<double>(i[k]) * static_cast<double>(f[k]);
      worst_sin.take(error_in_ulp(s[k], std::sin(angle)), f[k]);
      worst_cos.take(error_in_ulp(c[k], std::cos(angle)), f[k]);
    }
  }
  expect_within("sin i*f", worst_sin, 0.501);
  expect_within("cos i*f", worst_cos, 0.501);
}

TEST(math_products, far_and_exact) {
  // Any float is an exact product with one, however large; the blocks take the slow path.
  const std::vector<float> f = {0x1.8p31f, 0x1.fffffep127f, -0x1.234568p90f, inf, nan, 0.5f};
  const std::vector<std::int64_t> i(f.size(), (1 << 20) - 1);
  std::vector<float> s(f.size());
  std::vector<float> c(f.size());
  math::sin_product_block(i.data(), f.data(), s.data(), f.size());
  math::cos_product_block(i.data(), f.data(), c.data(), f.size());
  for (std::size_t k = 0; k < f.size(); ++k) {
    const double angle = static_cast<double>(i[k]) * static_cast<double>(f[k]);
    EXPECT_LE(error_in_ulp(s[k], std::sin(angle)), 0.501) << f[k];
    EXPECT_LE(error_in_ulp(c[k], std::cos(angle)), 0.501) << f[k];
  }
  EXPECT_TRUE(std::isnan(math::sin_product(1 << 20, 0x1p11f)));
  EXPECT_TRUE(std::isnan(math::cos_product(1 << 20, 0x1p11f)));
}

TEST(math_products, integers_convert_exactly) {
  for (std::int64_t i :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 31,
        -(std::int64_t{1} << 32) - 5, (std::int64_t{1} << 53) - 1,
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(math::detail::to_double(i), static_cast<double>(i)) << i;
  }
}

void expect_same(float got, float expected, const char* what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << what;
  } else {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected))
        << what << ": " << got << ", expected " << expected;
  }
}

TEST(math_special_values, exp_and_log) {
  expect_same(math::exp(0.0f), 1.0f, "exp(0)");
  expect_same(math::exp(-0.0f), 1.0f, "exp(-0)");
  expect_same(math::exp(inf), inf, "exp(inf)");
  expect_same(math::exp(-inf), 0.0f, "exp(-inf)");
  expect_same(math::exp(nan), nan, "exp(nan)");
  expect_same(math::exp(-nan), nan, "exp(-nan)");
  expect_same(math::exp(89.0f), inf, "exp(89)");
  expect_same(math::exp(-103.0f), 0x1p-149f, "exp(-103)");
  expect_same(math::exp(-104.0f), 0.0f, "exp(-104)");
  expect_same(math::log(1.0f), 0.0f, "log(1)");
  expect_same(math::log(0.0f), -inf, "log(0)");
  expect_same(math::log(-0.0f), -inf, "log(-0)");
  expect_same(math::log(-1.0f), nan, "log(-1)");
  expect_same(math::log(-0x1p-149f), nan, "log(-denormal)");
  expect_same(math::log(-inf), nan, "log(-inf)");
  expect_same(math::log(inf), inf, "log(inf)");
  expect_same(math::log(nan), nan, "log(nan)");
}

TEST(math_special_values, roots) {
  expect_same(math::sqrt(0.0f), 0.0f, "sqrt(0)");
  expect_same(math::sqrt(-0.0f), -0.0f, "sqrt(-0)");
  expect_same(math::sqrt(-1.0f), nan, "sqrt(-1)");
  expect_same(math::sqrt(inf), inf, "sqrt(inf)");
  expect_same(math::rsqrt(0.0f), inf, "rsqrt(0)");
  expect_same(math::rsqrt(-0.0f), -inf, "rsqrt(-0)");
  expect_same(math::rsqrt(-1.0f), nan, "rsqrt(-1)");
  expect_same(math::rsqrt(inf), 0.0f, "rsqrt(inf)");
  expect_same(math::rsqrt(nan), nan, "rsqrt(nan)");
}

TEST(math_special_values, saturating_functions) {
  expect_same(math::tanh(inf), 1.0f, "tanh(inf)");
  expect_same(math::tanh(-inf), -1.0f, "tanh(-inf)");
  expect_same(math::tanh(-0.0f), -0.0f, "tanh(-0)");
  expect_same(math::tanh(0x1p-149f), 0x1p-149f, "tanh(denormal)");
  expect_same(math::tanh(nan), nan, "tanh(nan)");
  expect_same(math::erf(inf), 1.0f, "erf(inf)");
  expect_same(math::erf(-inf), -1.0f, "erf(-inf)");
  expect_same(math::erf(-0.0f), -0.0f, "erf(-0)");
  expect_same(math::erf(nan), nan, "erf(nan)");
  expect_same(math::sigmoid(inf), 1.0f, "sigmoid(inf)");
  expect_same(math::sigmoid(-inf), 0.0f, "sigmoid(-inf)");
  expect_same(math::sigmoid(0.0f), 0.5f, "sigmoid(0)");
  expect_same(math::sigmoid(-0.0f), 0.5f, "sigmoid(-0)");
  expect_same(math::sigmoid(nan), nan, "sigmoid(nan)");
  EXPECT_LE(error_in_ulp(math::sigmoid(-80.0f), exact_sigmoid(-80)), 2);
}

TEST(math_special_values, sin_and_cos) {
  expect_same(math::sin(0.0f), 0.0f, "sin(0)");
  expect_same(math::sin(-0.0f), -0.0f, "sin(-0)");
  expect_same(math::sin(-0x1p-149f), -0x1p-149f, "sin(-denormal)");
  expect_same(math::cos(-0.0f), 1.0f, "cos(-0)");
  for (float x : {inf, -inf, nan, 0x1.000002p30f}) {
    expect_same(math::sin(x), nan, "sin");
    expect_same(math::cos(x), nan, "cos");
  }
  expect_same(math::sin_any(inf), nan, "sin_any(inf)");
  expect_same(math::cos_any(-inf), nan, "cos_any(-inf)");
  // The float closest to a multiple of pi/2.
  const float close = 0x1.f9cbe2p+7f * 0x1p54f;
  EXPECT_LE(error_in_ulp(math::sin_any(close), std::sin(static_cast<double>(close))), 0.501);
}

TEST(math_blocks, agree_with_the_scalar_functions_at_every_length) {
  std::vector<float> x(300);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 40.0f;
  x[200] = 0x1p100f;  // makes one block slow
  for (std::size_t n = 0; n <= x.size(); n += 7) {
    std::vector<float> y = x;
    math::sin_block(y.data(), y.data(), n);
    for (std::size_t i = 0; i < n; ++i) expect_same(y[i], math::sin_any(x[i]), "sin_block");
    for (std::size_t i = n; i < x.size(); ++i) expect_same(y[i], x[i], "beyond the block");
    y = x;
    math::cos_block(y.data(), y.data(), n);
    for (std::size_t i = 0; i < n; ++i) expect_same(y[i], math::cos_any(x[i]), "cos_block");
  }
}

}  // namespace

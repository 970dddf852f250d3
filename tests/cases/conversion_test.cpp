// SPDX-License-Identifier: Apache-2.0
// Narrow storage types through the stores and loads of programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/test_call.h"

namespace coda::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Program copy(const std::string& from, const std::string& to) {
  return Program::parse("coda 1\nprogram copy(x: " + from + "[m, n]) -> y: " + to +
                        "[m, n] {\n  y = x\n}\n");
}

std::vector<double> stored(const std::string& type, const std::vector<double>& values) {
  TestCall call(copy("f32", type), {1, static_cast<int64_t>(values.size())});
  call.fill("x", [&](int64_t, int64_t j) { return values[static_cast<size_t>(j)]; });
  call.launch();
  std::vector<double> result;
  for (size_t j = 0; j < values.size(); ++j)
    result.push_back(call.at("y", 0, static_cast<int64_t>(j)));
  return result;
}

/// The value of a code by the definition of the format: s eeee mmm (bias 7) or s eeeee mm (bias
/// 15).
double decoded(int code, int mantissa_bits, int bias) {
  const int exponent_bits = 7 - mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (mantissa_bits == 3 && (code & 0x7f) == 0x7f) return std::nan("");
  if (mantissa_bits == 2 && exponent == 31) return mantissa ? std::nan("") : sign * kInfinity;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign *
         (exponent ? std::ldexp(1 + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias));
}

TEST(Conversions, every_code_of_fp8_is_decoded) {
  for (const auto& [type, bits, bias] : {std::tuple{"e4m3", 3, 7}, {"e5m2", 2, 15}}) {
    TestCall call(copy(type, "f32"), {1, 256});
    auto* codes = static_cast<uint8_t*>(call.view("x").data);
    for (int code = 0; code < 256; ++code) codes[code] = static_cast<uint8_t>(code);
    call.launch();
    for (int code = 0; code < 256; ++code) {
      const double expected = decoded(code, bits, bias), got = call.at("y", 0, code);
      EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
          << type << " code " << code << " gives " << got << " instead of " << expected;
    }
  }
}

TEST(Conversions, every_tie_of_fp8_is_rounded_once) {
  // Between two neighbours a < b: the tie goes to the even code, (a + b) / 2 (1 -+ 2^-10) to a and
  // b.
  for (const auto& [type, bits, bias, last] :
       {std::tuple{"e4m3", 3, 7, 0x7e}, {"e5m2", 2, 15, 0x7b}}) {
    std::vector<double> values, expected;
    for (int code = 0; code < last; ++code)
      for (double sign : {1.0, -1.0}) {
        const double a = sign * decoded(code, bits, bias), b = sign * decoded(code + 1, bits, bias);
        for (double factor : {1 - 0x1p-10, 1.0, 1 + 0x1p-10}) {
          values.push_back((a + b) / 2 * factor);
          expected.push_back(factor < 1 ? a : factor > 1 ? b : code % 2 ? b : a);
        }
      }
    const std::vector<double> got = stored(type, values);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(got[i], expected[i]) << type << " of " << values[i];
  }
  // By way of bf16 it would be a tie first, then 1.
  EXPECT_EQ(stored("e4m3", {1.0634765625})[0], 1.125);
}

TEST(Conversions, fp8_saturates_at_its_own_limit) {
  EXPECT_EQ(stored("e5m2", {1000, 60000, -1e9, kInfinity}),
            (std::vector<double>{1024, 57344, -57344, 57344}));
  EXPECT_EQ(stored("e4m3", {448, 500, -1e9, kInfinity}),
            (std::vector<double>{448, 448, -448, 448}));
  for (const char* type : {"e4m3", "e5m2", "bf16", "f16"})
    EXPECT_TRUE(std::isnan(stored(type, {std::nan("")})[0])) << type;
}

TEST(Conversions, nan_and_infinity_survive_rounding) {
  // NaNs whose upper half alone would be an infinity, or would wrap when rounded.
  for (const char* type : {"bf16", "f16", "f32"}) {
    TestCall call(copy("f32", type), {1, 6});
    const uint32_t bits[] = {0x7f800001, 0x7fffffff, 0xff800001,
                             0xffffffff, 0x7f800000, 0xff800000};
    std::memcpy(call.view("x").data, bits, sizeof bits);
    call.launch();
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_TRUE(std::isnan(call.at("y", 0, j))) << type << ", " << j;
    EXPECT_EQ(call.at("y", 0, 4), kInfinity) << type;
    EXPECT_EQ(call.at("y", 0, 5), -kInfinity) << type;
  }
}

TEST(Conversions, f16_overflows_at_the_store_alone) {
  // gate = up = 300: silu(300) * 300 = 90000 lies beyond 65504.
  const Program program = Program::parse(R"(coda 1
program gated(g: T[m, n], u: T[m, n]) -> y: T[m, n], wide: f32[m, n], half: T[m, n], all: f32[m] {
  y = silu(g) * u
  wide = y
  half = y / 2
  all = sum[m](y)
}
)");
  TestCall call(program, {2, 40}, DType::f16);
  for (const char* name : {"g", "u"}) call.fill(name, [](int64_t, int64_t) { return 300; });
  call.run();
  EXPECT_EQ(call.at("y", 1, 7), kInfinity);
  EXPECT_EQ(call.at("wide", 1, 7), 90000);
  EXPECT_EQ(call.at("half", 1, 7), 44992);  // 45000 to the nearest of f16, 32 apart
  EXPECT_EQ(call.at("all", 1), 3600000);
}

TEST(Conversions, a_block_is_quantised_by_its_own_scale) {
  TestCall call(library("quantise.coda", "quant_1x128"), {9, 256, 40}, DType::bf16);
  call.run();
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t group = 0; group < 2; ++group) {
      double largest = 0;
      for (int64_t j = 0; j < 128; ++j)
        largest = std::max(largest, std::abs(call.at("q", i, 128 * group + j)));
      EXPECT_EQ(largest, 448) << "the largest of a block has the largest code";
    }
  // A block of zeros: scale 1e-30 / 448, values 0, nothing NaN.
  TestCall zero(library("quantise.coda", "quant_1x128"), {2, 128, 0}, DType::bf16);
  zero.run();
  EXPECT_EQ(zero.at("q", 1, 100), 0);
  EXPECT_NEAR(zero.at("scale", 1) * 448 / 1e-30, 1, 1e-6);
}

}  // namespace
}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
//
// Conversions against a slow reference that knows a format only by the list of its values: the
// nearest one is searched for, a tie goes to the even code.
//
// Where the compiler has _Float16, f16 is compared with it too: a part of the float patterns, or
// with CODA_EXHAUSTIVE=1 all of them.
#include "base/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

using coda::DType;

constexpr double inf = std::numeric_limits<double>::infinity();

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// A format, described independently of the code under test.
struct Format {
  DType type;
  int exponent_bits;
  int mantissa_bits;
  bool finite_only;  ///< the largest exponent holds ordinary values, its last code NaN
  bool saturates;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  unsigned sign() const { return 1u << (bits() - 1); }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  double value(unsigned code) const {
    const unsigned size = code & (sign() - 1);
    const int exponent = static_cast<int>(size >> mantissa_bits);
    const int mantissa = static_cast<int>(size & ((1u << mantissa_bits) - 1));
    const int top = (1 << exponent_bits) - 1;
    double result;
    if (finite_only && size == sign() - 1) {
      result = std::nan("");
    } else if (!finite_only && exponent == top) {
      result = mantissa == 0 ? inf : std::nan("");
    } else if (exponent == 0) {
      result = std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    } else {
      result = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias() - mantissa_bits);
    }
    return (code & sign()) != 0 ? -result : result;
  }

  unsigned largest() const {
    unsigned code = 0;
    while (std::isfinite(value(code + 1))) ++code;
    return code;
  }
};

const Format formats[] = {
    {DType::bf16, 8, 7, false, false},
    {DType::f16, 5, 10, false, false},
    {DType::e4m3, 4, 3, true, true},
    {DType::e5m2, 5, 2, false, true},
};

/// Rounds by search among the values of a format.
class Reference {
 public:
  explicit Reference(const Format& format) : format_(format), largest_(format.largest()) {
    for (unsigned code = 0; code <= largest_; ++code) values_.push_back(format.value(code));
    // The value that would follow the largest decides what rounds beyond it.
    values_.push_back(2 * values_[largest_] - values_[largest_ - 1]);
  }

  /// Code of `x`; x is not NaN.
  unsigned round(double x) const {
    const double size = std::fabs(x);
    const unsigned sign = std::signbit(x) ? format_.sign() : 0;
    const auto above = std::lower_bound(values_.begin(), values_.end(), size);
    auto code = static_cast<unsigned>(above - values_.begin());
    if (code > largest_ + 1) code = largest_ + 1;
    if (code > 0 && code <= largest_ + 1 && size < values_[code]) {
      // Both differences are exact: of neighbours, or of values far apart that are compared only.
      const double down = size - values_[code - 1];
      const double up = values_[code] - size;
      if (down < up || (down == up && code % 2 == 1)) --code;
    }
    if (code > largest_ && format_.saturates) code = largest_;
    return code | sign;
  }

  const std::vector<double>& values() const { return values_; }

 private:
  Format format_;
  unsigned largest_;
  std::vector<double> values_;
};

unsigned narrow(DType type, double x) {
  switch (type) {
    case DType::bf16:
      return coda::to_bf16(x).bits;
    case DType::f16:
      return coda::to_f16(x).bits;
    case DType::e4m3:
      return coda::to_e4m3(x).bits;
    default:
      return coda::to_e5m2(x).bits;
  }
}

unsigned narrow(DType type, float x) {
  switch (type) {
    case DType::bf16:
      return coda::to_bf16(x).bits;
    case DType::f16:
      return coda::to_f16(x).bits;
    case DType::e4m3:
      return coda::to_e4m3(x).bits;
    default:
      return coda::to_e5m2(x).bits;
  }
}

float widen(DType type, unsigned code) {
  switch (type) {
    case DType::bf16:
      return coda::to_f32(coda::Bf16{static_cast<std::uint16_t>(code)});
    case DType::f16:
      return coda::to_f32(coda::F16{static_cast<std::uint16_t>(code)});
    case DType::e4m3:
      return coda::to_f32(coda::E4m3{static_cast<std::uint8_t>(code)});
    default:
      return coda::to_f32(coda::E5m2{static_cast<std::uint8_t>(code)});
  }
}

/// `x` and, where a float holds it exactly, the float as well, must round as the reference says.
void check(const Format& format, const Reference& reference, double x) {
  const unsigned expected = reference.round(x);
  ASSERT_EQ(narrow(format.type, x), expected) << name_of(format.type) << " from double " << x;
  const auto f = static_cast<float>(x);
  ASSERT_EQ(narrow(format.type, f), reference.round(static_cast<double>(f)))
      << name_of(format.type) << " from float " << f;
}

TEST(convert, every_code_has_its_value_and_comes_back) {
  for (const Format& format : formats) {
    for (unsigned code = 0; code < 2 * format.sign(); ++code) {
      const double expected = format.value(code);
      const float got = widen(format.type, code);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(got)) << name_of(format.type) << " code " << code;
        const unsigned nan = narrow(format.type, got);
        ASSERT_TRUE(std::isnan(format.value(nan)));
        ASSERT_EQ(nan & format.sign(), code & format.sign());
        continue;
      }
      ASSERT_EQ(static_cast<double>(got), expected) << name_of(format.type) << " code " << code;
      ASSERT_EQ(std::signbit(got), std::signbit(expected));
      const bool saturated_infinity = std::isinf(expected) && format.saturates;
      const unsigned back = saturated_infinity ? code - 1 : code;
      ASSERT_EQ(narrow(format.type, got), back) << name_of(format.type);
      ASSERT_EQ(narrow(format.type, expected), back) << name_of(format.type);
    }
  }
}

TEST(convert, midpoints_and_what_lies_beside_them) {
  for (const Format& format : formats) {
    const Reference reference(format);
    const std::vector<double>& values = reference.values();
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const double middle = (values[i] + values[i + 1]) / 2;
      for (double sign : {1.0, -1.0}) {
        check(format, reference, sign * middle);
        check(format, reference, sign * std::nextafter(middle, 0.0));
        check(format, reference, sign * std::nextafter(middle, inf));
        for (int k = 1; k <= 52; ++k) {
          check(format, reference, sign * middle * (1 + std::ldexp(1.0, -k)));
          check(format, reference, sign * middle * (1 - std::ldexp(1.0, -k)));
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(convert, extremes) {
  for (const Format& format : formats) {
    const Reference reference(format);
    for (double x : {0.0, -0.0, inf, -inf, 1e300, -1e300, 0x1p128, 5e-324, -5e-324, 0x1p-149,
                     0x1p-1022, 0x1.fffffep127}) {
      check(format, reference, x);
    }
  }
}

TEST(convert, floats_of_every_exponent) {
  for (const Format& format : formats) {
    const Reference reference(format);
    std::uint32_t state = 1;
    for (int i = 0; i < 2000000; ++i) {
      state = state * 1664525u + 1013904223u;
      const float x = float_of(state ^ (state >> 13));
      if (std::isnan(x)) continue;
      ASSERT_EQ(narrow(format.type, x), reference.round(static_cast<double>(x)))
          << name_of(format.type) << " from " << x;
    }
  }
}

TEST(convert, nan_stays_nan_with_its_sign) {
  for (std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0x7fc00000u, 0xff800001u, 0xffffffffu}) {
    const std::uint64_t sign = static_cast<std::uint64_t>(bits >> 31) << 63;
    for (const Format& format : formats) {
      const unsigned expected = (bits >> 31) != 0 ? format.sign() : 0;
      // The bits go in as they are: arithmetic on a signalling NaN would change them.
      const unsigned from_float = narrow(format.type, float_of(bits));
      EXPECT_TRUE(std::isnan(format.value(from_float))) << name_of(format.type);
      EXPECT_EQ(from_float & format.sign(), expected);
      for (std::uint64_t payload : {1ull, 1ull << 28, 1ull << 51, (1ull << 52) - 1}) {
        const unsigned from_double =
            narrow(format.type, std::bit_cast<double>(sign | 0x7ff0000000000000ull | payload));
        EXPECT_TRUE(std::isnan(format.value(from_double))) << name_of(format.type);
        EXPECT_EQ(from_double & format.sign(), expected);
      }
    }
  }
  EXPECT_EQ(coda::to_bf16(float_of(0xff800000u)).bits, 0xff80);  // -inf, not NaN
  EXPECT_TRUE(std::isnan(coda::to_f32(coda::E4m3{0x7f})));
  EXPECT_TRUE(std::isnan(coda::to_f32(coda::E4m3{0xff})));
}

TEST(convert, one_rounding_only) {
  // 1.0625 + 2^-10 lies above the tie of 1.0 and 1.125; through bf16 it would become that tie.
  EXPECT_EQ(coda::to_f32(coda::to_e4m3(1.0634765625f)), 1.125f);
  EXPECT_EQ(coda::to_f32(coda::to_e4m3(1.0634765625)), 1.125f);
  // The same one size larger: through float32 this would become the tie of two bf16 values.
  const double above_tie = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(coda::to_f32(coda::to_bf16(above_tie)), 1 + 0x1p-7f);
  EXPECT_EQ(coda::to_f32(coda::to_f16(1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10f);
  EXPECT_EQ(coda::to_f32(coda::to_e5m2(1 + 0x1p-3 + 0x1p-40)), 1.25f);
}

TEST(convert, overflow) {
  EXPECT_EQ(coda::to_f32(coda::to_e5m2(1000.0f)), 1024.0f);
  EXPECT_EQ(coda::to_f32(coda::to_e5m2(60000.0f)), 57344.0f);
  EXPECT_EQ(coda::to_f32(coda::to_e5m2(-1e9f)), -57344.0f);
  EXPECT_EQ(coda::to_f32(coda::to_e4m3(500.0f)), 448.0f);
  EXPECT_EQ(coda::to_f32(coda::to_e4m3(-static_cast<float>(inf))), -448.0f);
  EXPECT_EQ(coda::to_f32(coda::to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(coda::to_f32(coda::to_f16(65520.0f)), static_cast<float>(inf));
  EXPECT_EQ(coda::to_f32(coda::to_f16(-90000.0f)), -static_cast<float>(inf));
  EXPECT_EQ(coda::to_f32(coda::to_bf16(0x1.fffffep127f)), static_cast<float>(inf));
}

TEST(convert, elements_round_trip) {
  unsigned char bytes[16];
  for (DType type : coda::all_dtypes) {
    void* unaligned = bytes + 1;
    coda::store_element(unaligned, type, 3.0);
    EXPECT_EQ(coda::load_element(unaligned, type), 3.0) << name_of(type);
    EXPECT_EQ(coda::load_integer(unaligned, type), 3) << name_of(type);
    coda::store_integer(unaligned, type, 14);
    EXPECT_EQ(coda::load_element(unaligned, type), 14.0) << name_of(type);
    std::memset(bytes, 0xa5, sizeof bytes);
    coda::store_element(unaligned, type, 0.0);
    EXPECT_EQ(bytes[0], 0xa5) << name_of(type);
    EXPECT_EQ(bytes[1 + size_of(type)], 0xa5) << name_of(type);
  }
}

std::int64_t stored_integer(DType type, std::int64_t value) {
  unsigned char bytes[8];
  coda::store_integer(bytes, type, value);
  return coda::load_integer(bytes, type);
}

std::int64_t stored_float(DType type, double value) {
  unsigned char bytes[8];
  coda::store_element(bytes, type, value);
  return coda::load_integer(bytes, type);
}

TEST(convert, integers_saturate) {
  constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(stored_integer(DType::i64, big), big);
  EXPECT_EQ(stored_integer(DType::i32, big), 2147483647);
  EXPECT_EQ(stored_integer(DType::i32, -big), -2147483648LL);
  EXPECT_EQ(stored_integer(DType::u8, 256), 255);
  EXPECT_EQ(stored_integer(DType::u8, -1), 0);
  EXPECT_EQ(stored_float(DType::u8, 2.5), 2);
  EXPECT_EQ(stored_float(DType::u8, 3.5), 4);
  EXPECT_EQ(stored_float(DType::i32, -1e20), -2147483648LL);
  EXPECT_EQ(stored_float(DType::i64, 1e20), big);
  EXPECT_EQ(stored_float(DType::i64, -inf), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(stored_float(DType::i32, std::nan("")), 0);
  EXPECT_EQ(stored_integer(DType::f16, -big), std::numeric_limits<std::int64_t>::min());
}

TEST(convert, large_integers_round_once) {
  // 2^62 + half an ulp of float32 + 1: double drops the 1, then the tie would go down.
  const std::int64_t value = (std::int64_t{1} << 62) + (std::int64_t{1} << 38) + 1;
  EXPECT_EQ(stored_integer(DType::f32, value), (std::int64_t{1} << 62) + (std::int64_t{1} << 39));
  EXPECT_EQ(stored_integer(DType::f32, -value), -(std::int64_t{1} << 62) - (std::int64_t{1} << 39));
  const std::int64_t wide = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
  EXPECT_EQ(stored_integer(DType::bf16, wide), (std::int64_t{1} << 62) + (std::int64_t{1} << 55));
}

#ifdef __FLT16_MANT_DIG__
TEST(convert, f16_agrees_with_the_compiler) {
  const char* value = std::getenv("CODA_EXHAUSTIVE");
  const bool all = value != nullptr && std::string(value) == "1";
  const std::uint32_t step = all ? 1 : 1021;
  std::uint32_t bits = 0;
  do {
    const float x = float_of(bits);
    if (!std::isnan(x)) {
      const auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
      ASSERT_EQ(coda::to_f16(x).bits, expected) << x;
    }
    const std::uint32_t next = bits + step;
    if (next < bits) break;
    bits = next;
  } while (true);
  for (unsigned code = 0; code < 65536; ++code) {
    const auto half = std::bit_cast<_Float16>(static_cast<std::uint16_t>(code));
    const float expected = static_cast<float>(half);
    const float got = widen(DType::f16, code);
    ASSERT_TRUE(std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(expected) ||
                (std::isnan(got) && std::isnan(expected)))
        << code;
  }
}
#endif

TEST(dtype, names_and_sizes) {
  static_assert(coda::size_of(DType::bf16) == 2 && coda::size_of(DType::e4m3) == 1);
  static_assert(coda::is_float(DType::e5m2) && !coda::is_float(DType::u8));
  static_assert(coda::dtype_from_name("i32") == DType::i32);
  for (DType type : coda::all_dtypes) EXPECT_EQ(coda::dtype_from_name(name_of(type)), type);
  for (const char* name : {"", "f", "F32", "f32 ", "f8", "int32"}) {
    EXPECT_FALSE(coda::dtype_from_name(name).has_value()) << name;
  }
}

}  // namespace

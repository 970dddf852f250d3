// SPDX-License-Identifier: Apache-2.0
//
// Elementary functions of float32, written so that a plain loop over them vectorises.
//
//   for (size_t i = 0; i < n; ++i) y[i] = coda::math::exp(x[i]);
//
// Every function is straight-line arithmetic: selects in place of branches, no tables, no calls,
// no intrinsics. Compiled with -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off it gives
// the same bits on every instruction set, for any vector width and in loop remainders, because
// each step is one IEEE operation and no step may be contracted or reordered. -ffast-math (or
// flush-to-zero at run time) breaks it; the former is refused below.
//
// Bounds, in ulp of float32 of the exact result, over all 2^32 inputs (tests/cpu/math_test.cpp):
//
//   sqrt   0.5     rsqrt  0.5001   sin cos                  0.501, |x| <= 2^30; NaN beyond
//   exp    0.99    log    0.81     sin_product cos_product  0.501, |i f| <= 2^30; NaN beyond
//   tanh   1.34    erf    1.40     sigmoid                  1.54
//
// Where the exact result is below 2^-126 the ulp is that of the denormals, 2^-149. Special values
// are those of C's <math.h>; NaN gives NaN. For sin and cos of larger arguments there are the
// branching sin_any and cos_any, and the loops sin_block and cos_block, which take the slow path
// only for blocks that hold such an argument.
//
// All functions have internal linkage and are always inlined, and std:: helpers are avoided: this
// header is compiled several times for different instruction sets, and a shared inline function
// would let the linker keep the copy that the running CPU does not have.
//
// The coefficients are minimax polynomials rounded to the type one by one, lowest first, the rest
// refitted after each; the error beside each is that of the rounded polynomial.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __FAST_MATH__
#error "coda's float functions need IEEE arithmetic: compile without -ffast-math"
#endif

#define CODA_MATH_FN [[gnu::always_inline]] static inline

namespace coda::math {

namespace detail {

inline constexpr float infinity = __builtin_inff();
inline constexpr float nan = __builtin_nanf("");

CODA_MATH_FN std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
CODA_MATH_FN std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }
CODA_MATH_FN float float_of(std::uint32_t b) { return __builtin_bit_cast(float, b); }
CODA_MATH_FN double double_of(std::uint64_t b) { return __builtin_bit_cast(double, b); }

CODA_MATH_FN float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
CODA_MATH_FN double magnitude(double x) { return double_of(bits_of(x) & ~(1ull << 63)); }

/// `value` (not negative) with the sign of `x`.
CODA_MATH_FN float with_sign_of(float value, float x) {
  return float_of(bits_of(value) | (bits_of(x) & 0x80000000u));
}

// Adding 1.5 * 2^23 (2^52) leaves a float (double) rounded to the nearest integer, with that
// integer in the low bits of its representation; this replaces the conversion to int.
inline constexpr float round_float = 0x1.8p23f;
inline constexpr double round_double = 0x1.8p52;

/// exp(x) = 2^n (1 + q) with |q| < 0.415, for |x| < 2^22 or so; NaN in q for NaN.
struct ExpParts {
  float q;
  std::int32_t n;
};

CODA_MATH_FN ExpParts exp_parts(float x) {
  const float t = x * 0x1.715476p+0f + round_float;
  const float n = t - round_float;
  // ln 2 in two parts; the first has 15 bits, so that n times it is exact for |n| < 2^9.
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  // (e^r - 1 - r) / r^2 on |r| <= ln(2)/2: 2^-28.2 relative to e^r.
  float p = 0x1.6ab89cp-10f;
  p = p * r + 0x1.123d70p-7f;
  p = p * r + 0x1.55585ap-5f;
  p = p * r + 0x1.55548cp-3f;
  p = p * r + 0x1.fffffcp-2f;
  return {r + (r * r) * p, static_cast<std::int32_t>(bits_of(t) - bits_of(round_float))};
}

/// 2^n for -126 <= n <= 127.
CODA_MATH_FN float pow2(std::int32_t n) {
  return float_of((static_cast<std::uint32_t>(n) + 127u) << 23);
}

/// `p` 2^n for |n| <= 252: two exact factors, so that only the last product can round (to a
/// denormal) or overflow.
CODA_MATH_FN float scale(float p, std::int32_t n) {
  const std::int32_t half = n >> 1;
  return p * pow2(half) * pow2(n - half);
}

/// sin(r) for |r| <= pi/2 (slightly more): (sin(r)/r - 1) / r^2, 2^-35.3 relative to sin(r).
/// The product form keeps the sign of zero.
CODA_MATH_FN double sin_core(double r) {
  const double z = r * r;
  double p = -0x1.9a686f703a36cp-26;
  p = p * z + 0x1.71707f1ac6f26p-19;
  p = p * z + -0x1.a017d998893d1p-13;
  p = p * z + 0x1.11110c49ea9cfp-7;
  p = p * z + -0x1.5555554769170p-3;
  return r * (1.0 + z * p);
}

// Largest argument of the branch-free reduction. Below it a multiple n of pi (or an odd multiple
// of pi/2) has at most 30 bits, so that n times the first two parts of pi, 23 bits each, is exact.
inline constexpr double max_angle = 0x1p30;

/// angle - n pi.
CODA_MATH_FN double subtract_pi(double angle, double n) {
  const double r = (angle - n * 0x1.921fb4p+1) - n * 0x1.4442dp-23;
  return r - n * 0x1.8469898cc5170p-47;
}

CODA_MATH_FN double sin_angle(double angle) {
  const double t = angle * 0x1.45f306dc9c883p-2 + round_double;
  const double r = subtract_pi(angle, t - round_double);
  const double s = double_of(bits_of(sin_core(r)) ^ (bits_of(t) << 63));
  return magnitude(angle) <= max_angle ? s : static_cast<double>(nan);
}

/// Zeros of cos lie at odd multiples of pi/2, so the multiple of pi taken off ends in one half:
/// what is left is small, and exact, where the result is small.
CODA_MATH_FN double cos_angle(double angle) {
  const double t = (angle * 0x1.45f306dc9c883p-2 - 0.5) + round_double;
  const double r = subtract_pi(angle, (t - round_double) + 0.5);
  const double s = double_of(bits_of(sin_core(r)) ^ (~bits_of(t) << 63));
  return magnitude(angle) <= max_angle ? s : static_cast<double>(nan);
}

/// Rounded once; instruction sets before AVX-512 cannot convert 64-bit integers in vectors.
CODA_MATH_FN double to_double(std::int64_t i) {
  const std::uint64_t u = static_cast<std::uint64_t>(i) ^ (1ull << 63);
  const double high = double_of((u >> 32) | 0x4530000000000000ull);  // 2^84 + 2^32 high word
  const double low = double_of((u & 0xffffffffull) | 0x4330000000000000ull);  // 2^52 + low word
  return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}

/// sin (cos if `quarter`) of any finite |angle| < 2^190, by multiplying its integer mantissa with
/// those bits of 1/pi that matter modulo 2.
static inline double sin_far(double angle, bool quarter) {
  // Bits of 1/pi from weight 2^63 down; 1/pi itself starts in the second word.
  static constexpr std::uint64_t inverse_pi[] = {
      0,
      0x517cc1b727220a94ull,
      0xfe13abe8fa9a6ee0ull,
      0x6db14acc9e21c820ull,
      0xff28b1d5ef5de2b0ull,
      0xdb92371d2126e970ull,
      0x0324977504e8c90eull,
  };
  const std::uint64_t bits = bits_of(angle);
  const auto exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1075;
  const std::uint64_t mantissa = (bits & ((1ull << 52) - 1)) | (1ull << 52);
  // 128 bits of 2^exponent / pi from weight 1 down: weight 2 and above give whole turns.
  const int first = 63 + exponent;
  const int word = first >> 6;
  const int shift = first & 63;
  const auto window = [&](int i) {
    const std::uint64_t high = inverse_pi[word + i] << shift;
    return shift == 0 ? high : high | (inverse_pi[word + i + 1] >> (64 - shift));
  };
  __extension__ using Wide = unsigned __int128;
  Wide turns = static_cast<Wide>(mantissa) * window(1);
  turns += static_cast<Wide>(mantissa * window(0)) << 64;
  if ((bits >> 63) != 0 && !quarter) turns = 0 - turns;
  if (quarter) turns += static_cast<Wide>(1) << 126;  // cos is even, and sin a quarter later
  // The top bit is the parity of the multiple of pi; below it a fraction, taken in [-1/2, 1/2).
  const Wide fraction = turns << 1;
  const bool upper = (fraction >> 127) != 0;
  const bool odd = ((turns >> 127) != 0) != upper;
  const auto high = static_cast<std::int64_t>(static_cast<std::uint64_t>(fraction >> 64));
  const auto low = static_cast<std::uint64_t>(fraction);
  const double r = static_cast<double>(high) * 0x1p-64 + static_cast<double>(low) * 0x1p-128;
  const double s = sin_core(r * 0x1.921fb54442d18p+1);
  return odd ? -s : s;
}

static inline double sin_any(double angle) {
  const double size = magnitude(angle);
  return size > max_angle && size < 0x1p190 ? sin_far(angle, false) : sin_angle(angle);
}

static inline double cos_any(double angle) {
  const double size = magnitude(angle);
  return size > max_angle && size < 0x1p190 ? sin_far(angle, true) : cos_angle(angle);
}

/// y[i] = fast(angle_at(i)), or slow for blocks that hold an angle beyond the fast function's
/// range. The local buffer lets y be an input of angle_at and still vectorise.
template <class AngleAt, class Fast, class Slow>
CODA_MATH_FN void by_blocks(AngleAt angle_at, Fast fast, Slow slow, float* y, std::size_t n) {
  constexpr std::size_t block = 128;
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t count = n - begin < block ? n - begin : block;
    float buffer[block];
    std::uint64_t far = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double angle = angle_at(begin + i);
      far |= magnitude(angle) > max_angle ? 1u : 0u;
      buffer[i] = static_cast<float>(fast(angle));
    }
    if (far != 0) {
      for (std::size_t i = 0; i < count; ++i) {
        buffer[i] = static_cast<float>(slow(angle_at(begin + i)));
      }
    }
    for (std::size_t i = 0; i < count; ++i) y[begin + i] = buffer[i];
  }
}

}  // namespace detail

/// Correctly rounded; NaN for x < 0, -0 for -0.
CODA_MATH_FN float sqrt(float x) { return __builtin_sqrtf(x); }

/// 1 / sqrt(x), in double and rounded once: 1 / sqrt in float would be off by up to 1.5 ulp.
/// +-inf for +-0, NaN for x < 0, 0 for inf.
CODA_MATH_FN float rsqrt(float x) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
}

/// e^x; 0 below ln 2^-150, inf above ln of the largest float; denormals are rounded, not flushed.
CODA_MATH_FN float exp(float x) {
  x = x > 89.0f ? 89.0f : x;  // in this form a NaN passes
  x = x < -104.0f ? -104.0f : x;
  const detail::ExpParts e = detail::exp_parts(x);
  return detail::scale(1.0f + e.q, e.n);
}

/// Natural logarithm; -inf for +-0, NaN for x < 0, inf for inf.
CODA_MATH_FN float log(float x) {
  // Denormals are scaled to normal numbers. x = 2^e m with m in [2/3, 4/3).
  const bool tiny = x < 0x1p-126f;
  const std::uint32_t bits = detail::bits_of(tiny ? x * 0x1p25f : x);
  const auto above = static_cast<std::int32_t>(bits - 0x3f2aaaabu);  // 2/3
  const auto exponent = static_cast<std::uint32_t>(above >> 23);
  const float f = detail::float_of(bits - (exponent << 23)) - 1.0f;
  const auto e = static_cast<float>(static_cast<std::int32_t>(exponent) - (tiny ? 25 : 0));
  // (log(1+f) - f + f^2/2) / f^3: 2^-27.3 relative to log(1+f).
  float p = 0x1.e0bfeap-4f;
  p = p * f + -0x1.079b26p-3f;
  p = p * f + 0x1.bb4d2cp-4f;
  p = p * f + -0x1.f33df0p-4f;
  p = p * f + 0x1.24d7aap-3f;
  p = p * f + -0x1.559bb2p-3f;
  p = p * f + 0x1.99985ep-3f;
  p = p * f + -0x1.ffff02p-3f;
  p = p * f + 0x1.555556p-2f;
  const float z = f * f;
  const float rest = ((f * z) * p + e * 0x1.7f7d1cp-20f) - 0.5f * z;
  float y = (f + rest) + e * 0x1.62e4p-1f;
  y = x < detail::infinity ? y : x;  // inf and NaN give themselves
  y = x < 0.0f ? detail::nan : y;
  return x == 0.0f ? -detail::infinity : y;
}

/// 1 / (1 + e^-x): never overflows, and keeps its relative accuracy down to the denormals.
CODA_MATH_FN float sigmoid(float x) {
  float a = -detail::magnitude(x);
  a = a < -104.0f ? -104.0f : a;
  const detail::ExpParts parts = detail::exp_parts(a);
  const float head = 1.0f + parts.q;
  const float e = detail::scale(head, parts.n);
  const float d = 1.0f + e;
  const bool negative = x < 0.0f;
  const float s = (negative ? e : 1.0f) / d;
  // Both sums lose their last bits, known exactly; without them the bound is above 2 ulp. To first
  // order they enter by the derivative of the quotient, where 1 / d is s or 1 - s.
  const float head_lost = parts.q - (head - 1.0f);
  const float d_lost = (e - (d - 1.0f)) + e * head_lost;
  const float numerator_lost = negative ? head_lost : 0.0f;
  return s + s * (numerator_lost - d_lost * (negative ? 1.0f - s : s));
}

CODA_MATH_FN float tanh(float x) {
  float a = detail::magnitude(x);
  // (tanh(x)/x - 1) / x^2 in z = x^2, |x| <= 0.625: 2^-27.8.
  const float z = a * a;
  float p = -0x1.767a14p-8f;
  p = p * z + 0x1.524c40p-6f;
  p = p * z + -0x1.b842c4p-5f;
  p = p * z + 0x1.11075ep-3f;
  p = p * z + -0x1.555534p-2f;
  const float near = a + a * (z * p);
  a = a > 10.0f ? 10.0f : a;  // tanh(10) rounds to 1
  const detail::ExpParts e = detail::exp_parts(a + a);
  const float far = 1.0f - 2.0f / (detail::pow2(e.n) * (1.0f + e.q) + 1.0f);
  return detail::with_sign_of(detail::magnitude(x) < 0.625f ? near : far, x);
}

CODA_MATH_FN float erf(float x) {
  float a = detail::magnitude(x);
  // erf(x)/x - 1 in z = x^2, |x| <= 1: 2^-29.5.
  const float z = a * a;
  float p = 0x1.4c339cp-14f;
  p = p * z + -0x1.a50ae8p-11f;
  p = p * z + 0x1.542e0ep-8f;
  p = p * z + -0x1.b7fe90p-6f;
  p = p * z + 0x1.ce2d50p-4f;
  p = p * z + -0x1.812740p-2f;
  p = p * z + 0x1.06eba8p-3f;
  const float near = a + a * p;
  // log(1 - erf(x)) on [1, 4]: 2^-29.8 relative to erf. erf(4) rounds to 1.
  a = a > 4.0f ? 4.0f : a;
  float q = 0x1.86dc08p-13f;
  q = q * a + -0x1.825a28p-9f;
  q = q * a + 0x1.65cb1ap-6f;
  q = q * a + -0x1.a6531ap-4f;
  q = q * a + -0x1.46baf0p-1f;
  q = q * a + -0x1.2088eap+0f;
  q = q * a + -0x1.661d48p-12f;
  const detail::ExpParts e = detail::exp_parts(q);
  const float far = 1.0f - detail::pow2(e.n) * (1.0f + e.q);
  return detail::with_sign_of(detail::magnitude(x) < 1.0f ? near : far, x);
}

/// For |x| <= 2^30; NaN beyond, where sin_any and sin_block are right.
CODA_MATH_FN float sin(float x) { return static_cast<float>(detail::sin_angle(x)); }

/// For |x| <= 2^30; NaN beyond, where cos_any and cos_block are right.
CODA_MATH_FN float cos(float x) { return static_cast<float>(detail::cos_angle(x)); }

/// sin(i f) of the unrounded product, for |i f| <= 2^30, NaN beyond. For |i| <= 2^29 the product
/// is exact in double and the result within 0.501 ulp (rounded: within 2^-25 absolute); for larger
/// i the rounding of the product adds at most 2^-53 |i f| <= 2^-23 to the error.
CODA_MATH_FN float sin_product(std::int64_t i, float f) {
  return static_cast<float>(detail::sin_angle(detail::to_double(i) * static_cast<double>(f)));
}

/// cos(i f), as sin_product.
CODA_MATH_FN float cos_product(std::int64_t i, float f) {
  return static_cast<float>(detail::cos_angle(detail::to_double(i) * static_cast<double>(f)));
}

/// sin and cos of any float; they branch, so loops over them do not vectorise.
CODA_MATH_FN float sin_any(float x) { return static_cast<float>(detail::sin_any(x)); }
CODA_MATH_FN float cos_any(float x) { return static_cast<float>(detail::cos_any(x)); }

/// y[k] = sin(x[k]) of any floats, at the speed of sin where all are within its range. y may be x.
static inline void sin_block(const float* x, float* y, std::size_t n) {
  detail::by_blocks([x](std::size_t k) { return static_cast<double>(x[k]); }, detail::sin_angle,
                    detail::sin_any, y, n);
}

/// y[k] = cos(x[k]), as sin_block.
static inline void cos_block(const float* x, float* y, std::size_t n) {
  detail::by_blocks([x](std::size_t k) { return static_cast<double>(x[k]); }, detail::cos_angle,
                    detail::cos_any, y, n);
}

/// y[k] = sin(i[k] f[k]) for products of any size. y may be f.
static inline void sin_product_block(const std::int64_t* i, const float* f, float* y,
                                     std::size_t n) {
  detail::by_blocks(
      [i, f](std::size_t k) { return detail::to_double(i[k]) * static_cast<double>(f[k]); },
      detail::sin_angle, detail::sin_any, y, n);
}

/// y[k] = cos(i[k] f[k]), as sin_product_block.
static inline void cos_product_block(const std::int64_t* i, const float* f, float* y,
                                     std::size_t n) {
  detail::by_blocks(
      [i, f](std::size_t k) { return detail::to_double(i[k]) * static_cast<double>(f[k]); },
      detail::cos_angle, detail::cos_any, y, n);
}

}  // namespace coda::math

#undef CODA_MATH_FN

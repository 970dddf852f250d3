// SPDX-License-Identifier: Apache-2.0
//
// The functions that expressions of the operation table use, for float and 64-bit integers.
//
// exp, log, tanh and rsqrt are CUDA's float functions (at most 2 ulp without fast math). sin and cos
// are written here, because CUDA's keep an array in local memory for large arguments; their
// reduction is three fused products up to kFarAngle and an integer product with 192 bits of 2/pi
// beyond. Quotients, erf and sigmoid are written without branches and with few selects, which cost
// an epilogue more than arithmetic.
#pragma once
#include "../plan/types.h"

namespace coda::device {

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7F800000u);
inline constexpr float kLog2E = 1.4426950408889634f;

CODA_DEVICE float exp(float a) { return expf(a); }
CODA_DEVICE float log(float a) { return logf(a); }
CODA_DEVICE float sqrt(float a) { return sqrtf(a); }
CODA_DEVICE float rsqrt(float a) { return rsqrtf(a); }
CODA_DEVICE float tanh(float a) { return tanhf(a); }
CODA_DEVICE float approximate_reciprocal(float a) {  // an ulp; zero where it is subnormal
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
CODA_DEVICE float exp2_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

CODA_DEVICE float absolute(float a) { return fabsf(a); }
CODA_DEVICE i64 absolute(i64 a) { return a < 0 ? -a : a; }
// NaN where either is NaN.
CODA_DEVICE float lesser(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
CODA_DEVICE float greater(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
CODA_DEVICE i64 lesser(i64 a, i64 b) { return a < b ? a : b; }
CODA_DEVICE i64 greater(i64 a, i64 b) { return a > b ? a : b; }
// The order of argmax: whether x at index i comes before y at index j. NaN is the largest, of
// equals the lowest index wins; an index of -1, as an unsigned number, is that of no element.
template <class T, class Index>
CODA_DEVICE bool precedes(T x, Index i, T y, Index j) {
  const bool nan = y != y;
  return (!nan && (x != x || x > y)) || ((nan ? x != x : x == y) && i < j);
}
// The remainder with the divisor's sign; 0 for a divisor of 0.
CODA_DEVICE i64 floor_remainder(i64 a, i64 b) {
  if (b == 0 || b == -1) return 0;
  const i64 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// The quotient within half an ulp (1.25 where the dividend is below 2^-100, whose correction is
// subnormal): an approximate reciprocal and two corrections. Divisors near the ends of the range are
// scaled, together with the dividend; what has no finite correction (zeros, infinities, NaN,
// overflow, which begins two ulps early) is the plain product. The reciprocal of a divisor that all
// elements share is worked out once.
CODA_DEVICE float quotient(float a, float b) {
  const float size = fabsf(b);
  const float scale = size > 0x1p64f ? 0x1p-64f : size < 0x1p-64f ? 0x1p64f : 1.f;
  const float d = b * scale, rough = approximate_reciprocal(d);
  const float inverse = fmaf(fmaf(-d, rough, 1.f), rough, rough);
  const float x = a * scale, q = x * inverse;
  const float fine = fmaf(fmaf(-d, q, x), inverse, q);
  return fabsf(fine) < kInfinity ? fine : x * rough;
}

// 1 / (1 + e^-a). Where the exponential overflows the result is zero, and so are results below
// 2^-126.
CODA_DEVICE float sigmoid(float a) { return approximate_reciprocal(1.f + expf(-a)); }

// Below 1 an odd polynomial, above 1 - 2^q of another; both have minimax coefficients, 2^-29.5 of
// the result.
CODA_DEVICE float erf(float a) {
  const float size = fabsf(a), z = a * a;
  float p = 0x1.4c339cp-14f;
  p = fmaf(p, z, -0x1.a50ae8p-11f);
  p = fmaf(p, z, 0x1.542e0ep-8f);
  p = fmaf(p, z, -0x1.b7fe90p-6f);
  p = fmaf(p, z, 0x1.ce2d50p-4f);
  p = fmaf(p, z, -0x1.812740p-2f);
  p = fmaf(p, z, 0x1.06eba8p-3f);
  const float near = fmaf(a, p, a);
  const float x = lesser(size, 4.f);  // erf(4) rounds to 1
  float q = 0x1.86dc08p-13f;
  q = fmaf(q, x, -0x1.825a28p-9f);
  q = fmaf(q, x, 0x1.65cb1ap-6f);
  q = fmaf(q, x, -0x1.a6531ap-4f);
  q = fmaf(q, x, -0x1.46baf0p-1f);
  q = fmaf(q, x, -0x1.2088eap+0f);
  q = fmaf(q, x, -0x1.661d48p-12f);
  const float far = 1.f - exp2_fast(q * kLog2E);
  return size < 1.f ? near : copysignf(far, a);
}

// ---- sine and cosine ---------------------------------------------------------------------------

inline constexpr float kFarAngle = 65536.f;

struct Angle {
  float r;  // in [-pi/4, pi/4]
  int q;    // the quarter turns taken off
};

// hi + lo; q * pi/2 comes off in three parts, fused, so that only the last product rounds.
CODA_DEVICE Angle reduce_angle(float hi, float lo) {
  const float t = fmaf(hi, 0.636619772f, 12582912.f), q = t - 12582912.f;
  float r = fmaf(q, -1.570796371f, hi);
  r = fmaf(q, 4.371138829e-08f, r);
  r = fmaf(q, 1.715124510e-15f, r);
  return {r + lo, __float_as_int(t)};
}

// Any finite float: 32 significant bits times the bits of 2/pi that matter at this exponent.
CODA_DEVICE Angle reduce_far_angle(float x) {
  const u32 bits = __float_as_uint(x);
  const int exponent = static_cast<int>(bits >> 23 & 255u) - 127;  // 16 .. 127
  // The words of 2/pi; bit 31 of the first weighs 2^31. The window starts at the bit of weight
  // 2^(32 - exponent).
  const u32 start = static_cast<u32>(exponent - 1), word = start >> 5, shift = start & 31u;
  constexpr u32 w1 = 0xA2F9836Eu, w2 = 0x4E441529u, w3 = 0xFC2757D1u, w4 = 0xF534DDC0u,
                w5 = 0xDB629599u, w6 = 0x3C439041u;
  const u32 a = word == 0 ? 0u : word == 1 ? w1 : word == 2 ? w2 : w3;
  const u32 b = word == 0 ? w1 : word == 1 ? w2 : word == 2 ? w3 : w4;
  const u32 c = word == 0 ? w2 : word == 1 ? w3 : word == 2 ? w4 : w5;
  const u32 d = word == 0 ? w3 : word == 1 ? w4 : word == 2 ? w5 : w6;
  const u32 m = bits << 8 | 0x80000000u;  // x = m 2^(exponent - 31)
  u64 p = static_cast<u64>(m) * __funnelshift_l(d, c, shift);
  p = static_cast<u64>(m) * __funnelshift_l(c, b, shift) + (p >> 32);
  // The top two bits are the quarter, modulo 4.
  p += static_cast<u64>(m * __funnelshift_l(b, a, shift)) << 32;
  const i64 fraction = static_cast<i64>(p << 2);  // in [-1/2, 1/2) quarter turns
  const int q = static_cast<int>(p >> 62) + (fraction < 0);
  const float r = static_cast<float>(fraction) * 8.51530395e-20f;  // pi/2 2^-64
  return bits >> 31 ? Angle{-r, -q} : Angle{r, q};
}

CODA_DEVICE float sine_of(Angle a) {
  const float z = a.r * a.r;
  float s = fmaf(z, 2.718198630e-06f, -1.983932016e-04f);
  s = fmaf(s, z, 8.333329111e-03f);
  s = fmaf(s, z, -1.666666716e-01f);
  s = fmaf(s * z, a.r, a.r);
  float c = fmaf(z, 2.443585254e-05f, -1.388734207e-03f);
  c = fmaf(c, z, 4.166664556e-02f);
  c = fmaf(c, z, -0.5f);
  c = fmaf(c, z, 1.f);
  const float r = a.q & 1 ? c : s;
  return a.q & 2 ? -r : r;
}
CODA_DEVICE float cosine_of(Angle a) { return sine_of({a.r, a.q + 1}); }

CODA_DEVICE Angle angle_of(float a) {
  if (fabsf(a) <= kFarAngle) return reduce_angle(a, 0.f);
  if (!(fabsf(a) < kInfinity)) return {a - a, 0};  // NaN
  return reduce_far_angle(a);
}
// Of i f with the product kept as two floats; right to 2^-22 up to i = 2^20 for |i f| <= 2^20.
CODA_DEVICE Angle angle_of_product(i64 i, float f) {
  const float x = static_cast<float>(i), hi = x * f;
  return reduce_angle(hi, fmaf(x, f, -hi));
}
CODA_DEVICE float sin(float a) { return fabsf(a) < 1.1754944e-38f ? a : sine_of(angle_of(a)); }
CODA_DEVICE float cos(float a) { return cosine_of(angle_of(a)); }
CODA_DEVICE float sin_product(i64 i, float f) { return sine_of(angle_of_product(i, f)); }
CODA_DEVICE float cos_product(i64 i, float f) { return cosine_of(angle_of_product(i, f)); }

}  // namespace coda::device

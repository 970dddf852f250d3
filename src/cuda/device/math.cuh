// SPDX-License-Identifier: Apache-2.0
//
// The functions that expressions of the operation table use, for float and 64-bit integers.
//
// exp, log, tanh, erf and rsqrt are CUDA's float functions (at most 2 ulp without fast math). sin
// and cos are written here, because CUDA's keep an array in local memory for large arguments; their
// reduction is three fused products up to kFarAngle and an integer product with 192 bits of 2/pi
// beyond.
#pragma once
#include "barrier.cuh"

namespace coda::device {

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7F800000u);

CODA_DEVICE float exp(float a) { return expf(a); }
CODA_DEVICE float log(float a) { return logf(a); }
CODA_DEVICE float sqrt(float a) { return sqrtf(a); }
CODA_DEVICE float rsqrt(float a) { return rsqrtf(a); }
CODA_DEVICE float tanh(float a) { return tanhf(a); }
CODA_DEVICE float erf(float a) { return erff(a); }
CODA_DEVICE float approximate_reciprocal(float a) {  // an ulp; zero where it is subnormal
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
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

// The exponential's argument is never positive, so nothing overflows and small results keep their
// digits; the reciprocal, of a number in [1, 2], has one Newton step.
CODA_DEVICE float sigmoid(float a) {
  const float e = expf(-fabsf(a)), d = 1.f + e;
  float r = approximate_reciprocal(d);
  r = fmaf(r, fmaf(-d, r, 1.f), r);
  return a >= 0.f ? r : e * r;
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

// SPDX-License-Identifier: Apache-2.0
//
// Values and their storage: conversions, and single elements of a tensor in memory.
#pragma once
#include "../plan/types.h"

namespace coda::device {

CODA_DEVICE float as_float(u32 x) { return __uint_as_float(x); }

// Two neighbouring columns, the left one in the low bits. fp8 and u8 saturate.
template <Type T>
CODA_DEVICE u32 pack(float lo, float hi) {
#define CODA_PACK(wanted, ptx, bits, constraint)                                  \
  if constexpr (T == Type::wanted) {                                              \
    bits r;                                                                       \
    asm("cvt.rn." ptx ".f32 %0, %1, %2;" : "=" constraint(r) : "f"(hi), "f"(lo)); \
    return r;                                                                     \
  }
  CODA_PACK(bf16, "bf16x2", u32, "r")
  CODA_PACK(f16, "f16x2", u32, "r")
  CODA_PACK(e4m3, "satfinite.e4m3x2", unsigned short, "h")
  CODA_PACK(e5m2, "satfinite.e5m2x2", unsigned short, "h")
  if constexpr (T == Type::u8)
    return static_cast<u32>(fminf(fmaxf(lo, 0.f), 255.f)) |
           static_cast<u32>(fminf(fmaxf(hi, 0.f), 255.f)) << 8;
}

CODA_DEVICE void unpack_f16(u32 x, float& lo, float& hi) {
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}\n"
      : "=f"(lo), "=f"(hi)
      : "r"(x));
}
template <Type T>
CODA_DEVICE void unpack(u32 x, float& lo, float& hi) {
  if constexpr (T == Type::bf16) {
    lo = as_float(x << 16);
    hi = as_float(x & 0xFFFF0000u);
  } else if constexpr (T == Type::f16) {
    unpack_f16(x, lo, hi);
  } else if constexpr (T == Type::e4m3 || T == Type::e5m2) {
    u32 wide;
    if constexpr (T == Type::e4m3)
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(static_cast<unsigned short>(x)));
    else
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(wide) : "h"(static_cast<unsigned short>(x)));
    unpack_f16(wide, lo, hi);
  } else {
    static_assert(T == Type::u8);
    lo = static_cast<float>(x & 255u);
    hi = static_cast<float>(x >> 8 & 255u);
  }
}

// Single elements of a tensor in memory.
template <Type T>
CODA_DEVICE float read_float(const void* data, i64 at) {
  if constexpr (T == Type::f32) {
    return static_cast<const float*>(data)[at];
  } else {
    u32 bits;
    if constexpr (type_bytes(T) == 2)
      bits = static_cast<const unsigned short*>(data)[at];
    else
      bits = static_cast<const unsigned char*>(data)[at];
    float lo, hi;
    unpack<T>(bits, lo, hi);
    return lo;
  }
}
template <Type T>
CODA_DEVICE i64 read_integer(const void* data, i64 at) {
  if constexpr (T == Type::i64) return static_cast<const i64*>(data)[at];
  if constexpr (T == Type::i32) return static_cast<const int*>(data)[at];
  if constexpr (T == Type::u8) return static_cast<const unsigned char*>(data)[at];
}
template <Type T>
CODA_DEVICE void write_float(void* data, i64 at, float x) {
  if constexpr (T == Type::f32)
    static_cast<float*>(data)[at] = x;
  else if constexpr (type_bytes(T) == 2)
    static_cast<unsigned short*>(data)[at] = static_cast<unsigned short>(pack<T>(x, x));
  else
    static_cast<unsigned char*>(data)[at] = static_cast<unsigned char>(pack<T>(x, x));
}

// The value that a storage type keeps of x.
template <Type T>
CODA_DEVICE float rounded(float x) {
  if constexpr (T == Type::f32)
    return x;
  else {
    float lo, hi;
    unpack<T>(pack<T>(x, x), lo, hi);
    return lo;
  }
}

}  // namespace coda::device

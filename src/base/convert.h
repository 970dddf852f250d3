// SPDX-License-Identifier: Apache-2.0
//
// Conversions between the arithmetic types (float32, float64, int64) and the storage types.
//
// Rules, the same for every format:
//   - widening is exact;
//   - narrowing rounds once, to nearest even, from float and from double alike: a double never
//     passes through float32 on its way to a narrower type;
//   - denormals are right in both directions, also where the processor flushes those of float32
//     (all but bf16 denormals, which are float32 denormals themselves);
//   - f16 and bf16 overflow to infinity, as IEEE 754 says;
//   - e4m3 and e5m2 saturate: every finite value too large, and infinity, gives +-448 or +-57344;
//   - NaN gives NaN with its sign and all lower bits set (what Hopper's cvt gives, but for the
//     sign); the payload is dropped, so that no NaN rounds to infinity.
//
// The scalar functions are straight-line integer code with selects, so plain loops over them
// vectorise. They have internal linkage and are always inlined, because this header is compiled
// for several instruction sets in one program (see cpu/math.h).
//
// load_element and store_element switch on the type for each element; they are for references,
// tests and edges, not for inner loops.
#pragma once

#include <cstdint>

#include "coda/dtype.h"

namespace coda {

/// Bits of a bfloat16: binary32 without its lower 16 bits.
struct Bf16 {
  std::uint16_t bits;
};

/// Bits of an IEEE binary16.
struct F16 {
  std::uint16_t bits;
};

/// Bits of an 8-bit float, 4 exponent bits (bias 7), 3 mantissa bits; 0x7f and 0xff are NaN, and
/// what would be infinity elsewhere are ordinary values up to 448.
struct E4m3 {
  std::uint8_t bits;
};

/// Bits of an 8-bit float, 5 exponent bits (bias 15), 2 mantissa bits, IEEE-like.
struct E5m2 {
  std::uint8_t bits;
};

namespace detail {

/// What the generic code needs to know of a narrow format.
struct NarrowFormat {
  int mantissa_bits;
  int bias;
  std::uint32_t overflow;   ///< code of results too large: infinity, or the largest finite value
  std::uint32_t first_nan;  ///< smallest NaN code without sign; codes from here on are NaN
  std::uint32_t nan;        ///< NaN code written, without sign
  std::uint32_t sign;       ///< sign bit
};

inline constexpr NarrowFormat bf16_format{7, 127, 0x7f80, 0x7f81, 0x7fff, 0x8000};
inline constexpr NarrowFormat f16_format{10, 15, 0x7c00, 0x7c01, 0x7fff, 0x8000};
inline constexpr NarrowFormat e4m3_format{3, 7, 0x7e, 0x7f, 0x7f, 0x80};
inline constexpr NarrowFormat e5m2_format{2, 15, 0x7b, 0x7d, 0x7f, 0x80};

/// The wide types, seen as integers.
struct WideFloat {
  using Bits = std::uint32_t;
  using Signed = std::int32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr int bias = 127;
};

struct WideDouble {
  using Bits = std::uint64_t;
  using Signed = std::int64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr int bias = 1023;
};

template <class T>
struct WideOf;
template <>
struct WideOf<float> {
  using Type = WideFloat;
};
template <>
struct WideOf<double> {
  using Type = WideDouble;
};

/// `value` rounded once to the narrow format.
template <NarrowFormat format, class T>
[[gnu::always_inline]] static inline std::uint32_t narrow(T value) {
  using Wide = typename WideOf<T>::Type;
  using Bits = typename Wide::Bits;
  using Signed = typename Wide::Signed;  // magnitudes fit; signed compares exist as instructions
  constexpr int shift = Wide::mantissa_bits - format.mantissa_bits;
  constexpr Bits sign = Bits{1} << (sizeof(T) * 8 - 1);
  constexpr Bits infinity = Bits{2 * Wide::bias + 1} << Wide::mantissa_bits;
  constexpr Bits smallest_normal = Bits{Wide::bias - format.bias + 1} << Wide::mantissa_bits;
  // A power of two whose ulp is the distance of the format's denormals: adding it rounds a small
  // value to them, and leaves their number in the low bits.
  constexpr Bits to_denormal = Bits{Wide::bias - format.bias + 1 + shift} << Wide::mantissa_bits;

  const Bits bits = __builtin_bit_cast(Bits, value);
  const Bits size = bits & ~sign;
  const Bits odd = (size >> shift) & 1u;
  const Bits rounded = (size + ((Bits{1} << (shift - 1)) - 1u + odd)) >> shift;
  constexpr Bits rebias = Bits{Wide::bias - format.bias} << format.mantissa_bits;
  const Bits normal = rounded - rebias;
  Bits code = normal;
  if constexpr (format.bias != Wide::bias) {
    const T raised = __builtin_bit_cast(T, size) + __builtin_bit_cast(T, to_denormal);
    const Bits denormal = __builtin_bit_cast(Bits, raised) - to_denormal;
    code = static_cast<Signed>(size) < static_cast<Signed>(smallest_normal) ? denormal : normal;
  }
  code = static_cast<Signed>(code) > static_cast<Signed>(format.overflow) ? Bits{format.overflow}
                                                                          : code;
  code = static_cast<Signed>(size) > static_cast<Signed>(infinity) ? Bits{format.nan} : code;
  constexpr int sign_shift = static_cast<int>(sizeof(T)) * 8 - (format.sign > 0xff ? 16 : 8);
  return static_cast<std::uint32_t>(code | ((bits & sign) >> sign_shift));
}

/// Exact value of a code of the narrow format.
template <NarrowFormat format>
[[gnu::always_inline]] static inline float widen(std::uint32_t code) {
  constexpr int shift = 23 - format.mantissa_bits;
  constexpr std::uint32_t from_denormal = static_cast<std::uint32_t>(128 - format.bias + shift)
                                          << 23;
  constexpr std::uint32_t infinity = 0x7f800000u;
  constexpr auto last_value = static_cast<std::int32_t>(format.first_nan - 1);
  constexpr auto last_denormal = static_cast<std::int32_t>((1u << format.mantissa_bits) - 1);

  const std::uint32_t size = code & (format.sign - 1);
  const auto order = static_cast<std::int32_t>(size);
  const std::uint32_t normal =
      (size << shift) + (static_cast<std::uint32_t>(127 - format.bias) << 23);
  // The number of a denormal in the low mantissa bits of a power of two, which is then taken off.
  const float denormal =
      __builtin_bit_cast(float, size + from_denormal) - __builtin_bit_cast(float, from_denormal);
  std::uint32_t bits = order > last_denormal ? normal : __builtin_bit_cast(std::uint32_t, denormal);
  // Below the NaNs stands infinity, except in a format with a single NaN, which has none.
  if constexpr (format.first_nan != format.nan) bits = order >= last_value ? infinity : bits;
  bits = order > last_value ? 0x7fc00000u : bits;
  constexpr int sign_shift = format.sign > 0xff ? 16 : 24;
  return __builtin_bit_cast(float, bits | ((code & format.sign) << sign_shift));
}

}  // namespace detail

/// Exact values.
[[gnu::always_inline]] static inline float to_f32(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
[[gnu::always_inline]] static inline float to_f32(F16 x) {
  return detail::widen<detail::f16_format>(x.bits);
}
[[gnu::always_inline]] static inline float to_f32(E4m3 x) {
  return detail::widen<detail::e4m3_format>(x.bits);
}
[[gnu::always_inline]] static inline float to_f32(E5m2 x) {
  return detail::widen<detail::e5m2_format>(x.bits);
}

/// Rounded once, to nearest even, as the head of this file says.
[[gnu::always_inline]] static inline Bf16 to_bf16(float x) {
  return {static_cast<std::uint16_t>(detail::narrow<detail::bf16_format>(x))};
}
[[gnu::always_inline]] static inline Bf16 to_bf16(double x) {
  return {static_cast<std::uint16_t>(detail::narrow<detail::bf16_format>(x))};
}
[[gnu::always_inline]] static inline F16 to_f16(float x) {
  return {static_cast<std::uint16_t>(detail::narrow<detail::f16_format>(x))};
}
[[gnu::always_inline]] static inline F16 to_f16(double x) {
  return {static_cast<std::uint16_t>(detail::narrow<detail::f16_format>(x))};
}
[[gnu::always_inline]] static inline E4m3 to_e4m3(float x) {
  return {static_cast<std::uint8_t>(detail::narrow<detail::e4m3_format>(x))};
}
[[gnu::always_inline]] static inline E4m3 to_e4m3(double x) {
  return {static_cast<std::uint8_t>(detail::narrow<detail::e4m3_format>(x))};
}
[[gnu::always_inline]] static inline E5m2 to_e5m2(float x) {
  return {static_cast<std::uint8_t>(detail::narrow<detail::e5m2_format>(x))};
}
[[gnu::always_inline]] static inline E5m2 to_e5m2(double x) {
  return {static_cast<std::uint8_t>(detail::narrow<detail::e5m2_format>(x))};
}

/// The element at `from`, which need not be aligned. Exact but for int64 beyond 2^53, which is
/// rounded to nearest even.
double load_element(const void* from, DType type);

/// Stores `value`, rounded once to nearest even. Integer types saturate; NaN is stored as 0.
void store_element(void* to, DType type, double value);

/// The element at `from` as an integer. Integer types are exact; floating-point types are rounded
/// to nearest even and saturated, NaN gives 0.
std::int64_t load_integer(const void* from, DType type);

/// Stores an integer: i32 and u8 saturate, floating-point types round once to nearest even.
void store_integer(void* to, DType type, std::int64_t value);

}  // namespace coda

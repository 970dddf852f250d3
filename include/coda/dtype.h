// SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors in memory: what a view may hold, how wide it is, what it is called.
//
// Arithmetic is float32 (integers are 64-bit), so a type here is a *storage* type: a load widens
// exactly, a store rounds once. The names are those of the text form of programs; both directions
// (name_of, dtype_from_name) live here so that parser, printer and messages cannot disagree.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace coda {

enum class DType : unsigned char {
  f64,   ///< IEEE binary64
  f32,   ///< IEEE binary32
  bf16,  ///< upper half of binary32: 8 exponent bits, 7 mantissa bits
  f16,   ///< IEEE binary16: 5 exponent bits, 10 mantissa bits, largest value 65504
  e4m3,  ///< 8 bits, finite variant: largest value 448, one NaN code per sign, no infinity
  e5m2,  ///< 8 bits, IEEE-like: largest value 57344, infinities and NaNs exist
  i64,   ///< signed 64-bit
  i32,   ///< signed 32-bit
  u8,    ///< unsigned 8-bit; also the storage of masks (0 or 1)
};

/// Every type, in the order of the enumeration.
inline constexpr DType all_dtypes[] = {DType::f64, DType::f32,  DType::bf16,
                                       DType::f16, DType::e4m3, DType::e5m2,
                                       DType::i64, DType::i32,  DType::u8};

/// Bytes of one element.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return 1;
  }
  return 0;
}

/// Name as written in programs: "f32", "bf16", ... Static storage.
constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

/// True for the floating-point types, false for the integers.
constexpr bool is_float(DType type) {
  return type != DType::i64 && type != DType::i32 && type != DType::u8;
}

/// The type called `name`, exactly as name_of spells it; nothing for any other text.
constexpr std::optional<DType> dtype_from_name(std::string_view name) {
  for (DType type : all_dtypes) {
    if (name == name_of(type)) return type;
  }
  return std::nullopt;
}

}  // namespace coda

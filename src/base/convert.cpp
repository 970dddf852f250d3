// SPDX-License-Identifier: Apache-2.0
#include "base/convert.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace coda {

namespace {

template <class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void write(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// `value` in the range of the integer type T.
template <class T>
T saturate(std::int64_t value) {
  constexpr std::int64_t low = std::numeric_limits<T>::min();
  constexpr std::int64_t high = std::numeric_limits<T>::max();
  return static_cast<T>(value < low ? low : value > high ? high : value);
}

/// To nearest even; the comparison stands before the conversion, which is undefined out of range.
std::int64_t round_to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(std::nearbyint(value));
}

/// An integer as a double that rounds to any narrower type as the integer itself would: beyond
/// 2^53 the bits that do not fit are not rounded but kept as one sticky bit.
double to_double_for_rounding(std::int64_t value) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (value >= -exact && value <= exact) return static_cast<double>(value);
  const auto bits = static_cast<std::uint64_t>(value);
  const std::uint64_t sticky = (bits & 0x7ff) != 0 ? 0x800 : 0;
  return static_cast<double>(static_cast<std::int64_t>((bits & ~std::uint64_t{0x7ff}) | sticky));
}

}  // namespace

double load_element(const void* from, DType type) {
  switch (type) {
    case DType::f64:
      return read<double>(from);
    case DType::f32:
      return static_cast<double>(read<float>(from));
    case DType::bf16:
      return static_cast<double>(to_f32(read<Bf16>(from)));
    case DType::f16:
      return static_cast<double>(to_f32(read<F16>(from)));
    case DType::e4m3:
      return static_cast<double>(to_f32(read<E4m3>(from)));
    case DType::e5m2:
      return static_cast<double>(to_f32(read<E5m2>(from)));
    case DType::i64:
      return static_cast<double>(read<std::int64_t>(from));
    case DType::i32:
      return static_cast<double>(read<std::int32_t>(from));
    case DType::u8:
      return static_cast<double>(read<std::uint8_t>(from));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void store_element(void* to, DType type, double value) {
  switch (type) {
    case DType::f64:
      return write(to, value);
    case DType::f32:
      return write(to, static_cast<float>(value));
    case DType::bf16:
      return write(to, to_bf16(value));
    case DType::f16:
      return write(to, to_f16(value));
    case DType::e4m3:
      return write(to, to_e4m3(value));
    case DType::e5m2:
      return write(to, to_e5m2(value));
    case DType::i64:
    case DType::i32:
    case DType::u8:
      return store_integer(to, type, round_to_integer(value));
  }
}

std::int64_t load_integer(const void* from, DType type) {
  switch (type) {
    case DType::i64:
      return read<std::int64_t>(from);
    case DType::i32:
      return read<std::int32_t>(from);
    case DType::u8:
      return read<std::uint8_t>(from);
    default:
      return round_to_integer(load_element(from, type));
  }
}

void store_integer(void* to, DType type, std::int64_t value) {
  switch (type) {
    case DType::i64:
      return write(to, value);
    case DType::i32:
      return write(to, saturate<std::int32_t>(value));
    case DType::u8:
      return write(to, saturate<std::uint8_t>(value));
    case DType::f64:
      return write(to, static_cast<double>(value));
    default:
      return store_element(to, type, to_double_for_rounding(value));
  }
}

}  // namespace coda

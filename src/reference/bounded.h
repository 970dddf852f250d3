// SPDX-License-Identifier: Apache-2.0
// Numbers with an error bound, and the elementwise operations on them, one element at a time.
//
// A Bounded is a float64 value and the distance within which a correct float32 evaluation lies. The
// error is infinite where any result is right (0/0 within errors, values at the edge of the float32
// range). Smooth operations take value and derivatives from the operation table; the derivatives
// are evaluated at the operands and at both ends of their error intervals, so that points of zero
// slope (x*x at 0) keep their second-order error. Operations with kinks and jumps have rules of
// their own below.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ir/op.h"

namespace coda::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kFloatMax = std::numeric_limits<float>::max();

struct Bounded {
  double value = 0;
  double error = 0;
};

/// Distance of neighbouring numbers with `mantissa` stored bits at finite x; `least` is that of the
/// denormals.
inline double ulp(double x, int mantissa, double least) {
  const uint64_t exponent = std::bit_cast<uint64_t>(x) & 0x7ff0000000000000u;
  return std::max(std::bit_cast<double>(exponent) * std::ldexp(1.0, -mantissa), least);
}

inline double ulp32(double x) {
  const uint64_t exponent = std::bit_cast<uint64_t>(x) & 0x7ff0000000000000u;
  return std::max(std::bit_cast<double>(exponent) * 0x1p-23, 0x1p-149);
}

/// Applies the range of float32 to a computed value: what is too large is infinite.
inline Bounded in_range(double value, double error) {
  if (error != error) error = kInfinity;
  if (!std::isfinite(value)) return {value, error == kInfinity ? error : 0};
  const double size = std::fabs(value);
  if (size - error > kFloatMax) return {std::copysign(kInfinity, value), 0};
  return {value, size + error > kFloatMax ? kInfinity : error};
}

/// A computed value that was rounded to float32 with an error of `ulps` units.
inline Bounded rounded(double value, double error, double ulps) {
  if (std::isfinite(value))
    error += ulps * ulp32(std::fabs(value) + (error < kInfinity ? error : 0));
  return in_range(value, error);
}

// The names that the texts of the operation table use, on float64.
namespace table {

using std::cos;
using std::erf;
using std::exp;
using std::log;
using std::sin;
using std::sqrt;
using std::tanh;
inline double absolute(double a) { return std::fabs(a); }
inline double quotient(double a, double b) { return a / b; }
inline double lesser(double a, double b) { return a != a ? a : b != b ? b : b < a ? b : a; }
inline double greater(double a, double b) { return a != a ? a : b != b ? b : b > a ? b : a; }
inline double rsqrt(double a) { return 1 / std::sqrt(a); }
inline double sigmoid(double a) {
  const double e = std::exp(-std::fabs(a));
  return (a < 0 ? e : 1) / (1 + e);
}
inline double where(double condition, double a, double b) { return condition != 0 ? a : b; }
inline double floor_remainder(double a, double b) { return b == 0 ? 0 : a - std::floor(a / b) * b; }
inline constexpr double NONE = 0;

/// Value and slopes of an operation: the rows of the table, instantiated on float64.
template <ir::Op op>
struct Row;
#define CODA_OP(name_, arity_, kind_, ulps_, expression_, da_, db_, dc_)        \
  template <>                                                                   \
  struct Row<ir::Op::name_> {                                                   \
    static constexpr int arity = arity_;                                        \
    static constexpr double ulps = ulps_;                                       \
    static double value([[maybe_unused]] double a, [[maybe_unused]] double b,   \
                        [[maybe_unused]] double c) {                            \
      return expression_;                                                       \
    }                                                                           \
    template <int operand>                                                      \
    static double slope([[maybe_unused]] double a, [[maybe_unused]] double b,   \
                        [[maybe_unused]] double c, [[maybe_unused]] double y) { \
      [[maybe_unused]] constexpr double g = 1;                                  \
      if constexpr (operand == 0) return da_;                                   \
      if constexpr (operand == 1) return db_;                                   \
      if constexpr (operand == 2) return dc_;                                   \
    }                                                                           \
  };
#include <coda/elementwise.def>

}  // namespace table

/// Whether two results differ in kind: one is NaN or infinite in a way the other is not.
inline bool differ_in_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) != std::isnan(b);
  return (std::isinf(a) || std::isinf(b)) && a != b;
}

/// An operation whose slopes exist almost everywhere, with the error of its float32 evaluation.
template <ir::Op op>
Bounded smooth(Bounded a, Bounded b, Bounded c) {
  using Row = table::Row<op>;
  const double y = Row::value(a.value, b.value, c.value);
  const double total = a.error + b.error + c.error;
  if (total == 0) return rounded(y, 0, Row::ulps);
  if (total == kInfinity) return {y, kInfinity};
  double error = 0;
  const auto add_slopes = [&](double sign) {
    const double x[3] = {a.value + sign * a.error, b.value + sign * b.error,
                         c.value + sign * c.error};
    const double at = Row::value(x[0], x[1], x[2]);
    if (differ_in_kind(at, y)) return false;
    double sum = 0;
    if (a.error > 0) sum += a.error * std::fabs(Row::template slope<0>(x[0], x[1], x[2], at));
    if constexpr (Row::arity > 1)
      if (b.error > 0) sum += b.error * std::fabs(Row::template slope<1>(x[0], x[1], x[2], at));
    if constexpr (Row::arity > 2)
      if (c.error > 0) sum += c.error * std::fabs(Row::template slope<2>(x[0], x[1], x[2], at));
    error = sum > error || sum != sum ? sum : error;
    return true;
  };
  const bool same = add_slopes(0) && add_slopes(1) && add_slopes(-1);
  if (!same) return {y, kInfinity};
  if (!std::isfinite(y)) return {y, 0};
  if constexpr (op == ir::Op::div)
    if (std::fabs(b.value) <= b.error) return {y, kInfinity};  // the divisor may be 0
  return rounded(y, error, Row::ulps);
}

/// Whether a and b are so close that either may be the larger one.
inline bool may_be_equal(Bounded a, Bounded b) {
  const double error = a.error + b.error;
  return error > 0 && (error == kInfinity || std::fabs(a.value - b.value) <= error);
}

inline Bounded absolute(Bounded a) { return {std::fabs(a.value), a.error}; }

/// The larger (sign 1) or smaller (sign -1) of two.
inline Bounded extreme(Bounded a, Bounded b, double sign) {
  const double y = sign > 0 ? table::greater(a.value, b.value) : table::lesser(a.value, b.value);
  if (may_be_equal(a, b)) return {y, std::max(a.error, b.error)};
  if (std::isnan(y)) return {y, 0};
  return {y, (a.value - b.value) * sign > 0 || a.value == b.value ? a.error : b.error};
}

inline Bounded select(Bounded condition, Bounded a, Bounded b) {
  const Bounded& taken = condition.value != 0 ? a : b;
  const Bounded& other = condition.value != 0 ? b : a;
  if (!may_be_equal(condition, {0, 0})) return taken;
  if (!differ_in_kind(a.value, b.value) && !std::isfinite(a.value))
    return {taken.value, std::max(a.error, b.error)};
  const double distance = std::fabs(a.value - b.value);
  if (!std::isfinite(distance)) return {taken.value, kInfinity};
  return {taken.value, std::max(taken.error, distance + other.error)};
}

/// A mask: error 1 where either answer is right.
template <ir::Op op>
Bounded compared(Bounded a, Bounded b) {
  return {table::Row<op>::value(a.value, b.value, 0), may_be_equal(a, b) ? 1.0 : 0.0};
}

/// Float32 of an integer: rounded to nearest even.
inline Bounded real_of(int64_t value, double error) {
  const double rounded_value = static_cast<float>(value);
  if (error == 0) return {rounded_value, 0};
  return {rounded_value, error + ulp32(std::fabs(rounded_value) + error)};
}

}  // namespace coda::reference

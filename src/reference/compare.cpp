// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>

#include "base/convert.h"
#include "reference/bounded.h"
#include "reference/internal.h"

namespace coda::reference {
namespace {

struct Judgement {
  double ratio = 0;  // error / tolerance; above 1 is a failure
  double expected = 0, tolerance = 0;
};

bool is_saturating(DType type) { return type == DType::e4m3 || type == DType::e5m2; }

/// A float that a store rounded to `type`, against what it was rounded from.
Judgement judge_float(double got, double expected, double error, DType type) {
  const double stored = round_to(expected, type);
  const double unit = ulp_of(std::isinf(stored) ? expected : stored, type);
  if (is_saturating(type) && error < kInfinity)
    error = std::max(std::fabs(round_to(expected - error, type) - stored),
                     std::fabs(round_to(expected + error, type) - stored));
  Judgement result{0, stored, error + unit + 0x1p-120};
  if (error == kInfinity || got == stored || (std::isnan(got) && std::isnan(expected)))
    return result;
  if (std::isnan(got) || std::isnan(expected)) {
    result.ratio = kInfinity;
  } else if (std::isinf(got)) {  // right where a value within the error overflows
    const double end = expected + std::copysign(error + unit, got);
    result.ratio = round_to(end, type) == got ? 0 : kInfinity;
  } else {  // an infinite `stored` may stand for a finite `expected`; a saturated one is finite
    const double aim = std::isinf(stored) ? expected : stored;
    const double distance = std::min(std::fabs(got - aim), std::fabs(got - expected));
    result.ratio = std::isfinite(distance) ? distance / result.tolerance : kInfinity;
  }
  return result;
}

template <class T>
int64_t saturated(int64_t value) {
  return std::clamp<int64_t>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

int64_t saturated(int64_t value, DType type) {
  if (type == DType::i32) return saturated<int32_t>(value);
  if (type == DType::u8) return saturated<uint8_t>(value);
  return value;
}

Judgement judge_integer(int64_t got, int64_t expected, double error, DType type) {
  const int64_t aim = saturated(expected, type);
  Judgement result{0, static_cast<double>(aim), error};
  if (got == aim) return result;
  const double distance = std::fabs(static_cast<double>(got) - static_cast<double>(aim));
  // Two different integers beyond 2^53 may be one float64.
  result.ratio = error > 0 ? std::max(distance, 1.0) / error : kInfinity;
  return result;
}

}  // namespace

Comparison compare(const Binding& output, const Dense& expected) {
  Comparison result;
  result.elements = expected.size();
  for (const Segment& segment : output.segments) {
    const View& view = segment.view;
    const bool by_rows = output.axis == Axis::rows;
    const int64_t row0 = by_rows ? segment.begin : 0, row1 = by_rows ? segment.end : output.rows;
    const int64_t column0 = by_rows ? 0 : segment.begin;
    const int64_t column1 = by_rows ? output.columns : segment.end;
    for (int64_t r = row0; r < row1; ++r)
      for (int64_t c = column0; c < column1; ++c) {
        const int64_t offset = (r - row0) * view.row_stride + (c - column0) * view.column_stride;
        const std::byte* at = view.data + offset * static_cast<int64_t>(size_of(view.dtype));
        const size_t i = static_cast<size_t>(r * output.columns + c);
        const double error = error_at(expected, i), got = load_element(at, view.dtype);
        Judgement judgement;
        if (!is_float(view.dtype))
          judgement =
              judge_integer(load_integer(at, view.dtype), expected.integer[i], error, view.dtype);
        else
          judgement = judge_float(
              got,
              expected.value.empty() ? static_cast<double>(expected.integer[i]) : expected.value[i],
              error, view.dtype);
        result.failures += judgement.ratio > 1;
        if (judgement.ratio > result.ratio) {
          result.ratio = judgement.ratio, result.row = r, result.column = c;
          result.got = got, result.expected = judgement.expected;
          result.tolerance = judgement.tolerance;
        }
      }
  }
  return result;
}

std::string to_string(const Comparison& x) {
  if (x.ok())
    return fmt::format("all {} elements within tolerance (largest error {:.2f} of it)", x.elements,
                       x.ratio);
  return fmt::format(
      "element [{}, {}] is {:.9g}, expected {:.9g} within {:.2g}; {} of {} elements are off", x.row,
      x.column, x.got, x.expected, x.tolerance, x.failures, x.elements);
}

}  // namespace coda::reference

// SPDX-License-Identifier: Apache-2.0
#include "train/curve_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace coda::train {
namespace {

/// Numbers beyond have no place either, so that no arithmetic on those that have one overflows.
bool has_place(double number) { return std::abs(number) <= 1e30; }

/// The least of 1, 2 and 5 times a power of ten that cuts `span` into at most `most` parts.
double round_step(double span, int most) {
  const double least = span / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

std::string label_of(double value, double step, double largest) {
  if (largest >= 1e9 || step < 1e-6) return fmt::format("{:.4g}", value);
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

/// Widened where the values are one, or so close that numbers between them cannot be told apart.
void widen(Axis& axis) {
  const double middle = axis.low + (axis.high - axis.low) / 2;
  const double least = std::max(std::abs(middle) * 1e-6, 1e-12);
  if (axis.high - axis.low >= least) return;
  const double half = middle == 0 ? 0.5 : std::max(std::abs(middle) / 10, least);
  axis.low = middle - half;
  axis.high = middle + half;
}

void add_ticks(Axis& axis, double step) {
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  // Half a millionth of slack: the limits are ticks, up to rounding, where they were rounded out.
  const double first = std::ceil(axis.low / step - 5e-7),
               last = std::floor(axis.high / step + 5e-7);
  const int count = static_cast<int>(last - first) + 1;
  for (int i = 0; i < count; ++i) {
    const double value = (first + i) * step + 0.0;  // 0 in place of -0
    axis.ticks.push_back({value, label_of(value, step, largest)});
  }
}

}  // namespace

Curve curve_of(std::span<const Metrics> metrics) {
  Curve curve;
  for (const Metrics& line : metrics) {
    const auto step = static_cast<double>(line.step);
    curve.train.push_back({step, line.loss});
    if (line.held_out_loss) curve.held_out.push_back({step, *line.held_out_loss});
  }
  return curve;
}

Axes axes_of(const Curve& curve, int most_steps, int most_losses) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Axes axes;
  Axis steps = {infinity, -infinity, {}}, losses = steps;
  for (const auto* points : {&curve.train, &curve.held_out})
    for (const CurvePoint& point : *points) {
      if (!has_place(point.step)) {
        ++axes.not_finite;
        continue;
      }
      // A step without a finite loss is a step of the run all the same.
      steps.low = std::min(steps.low, point.step);
      steps.high = std::max(steps.high, point.step);
      if (!has_place(point.loss)) {
        ++axes.not_finite;
        continue;
      }
      ++axes.plotted;
      losses.low = std::min(losses.low, point.loss);
      losses.high = std::max(losses.high, point.loss);
    }
  if (steps.low <= steps.high) axes.steps = steps;
  if (axes.plotted > 0) axes.losses = losses;

  const double least = std::max(1.0, std::abs(axes.steps.low) * 1e-9);
  axes.steps.high = std::max(axes.steps.high, axes.steps.low + least);
  add_ticks(axes.steps, std::max(1.0, round_step(axes.steps.high - axes.steps.low, most_steps)));

  widen(axes.losses);
  // One interval is lost at each end when the limits are rounded out to ticks.
  const double step = round_step(axes.losses.high - axes.losses.low, std::max(1, most_losses - 2));
  axes.losses.low = std::floor(axes.losses.low / step) * step;
  axes.losses.high = std::ceil(axes.losses.high / step) * step;
  add_ticks(axes.losses, step);
  return axes;
}

std::vector<Column> columns_of(const std::vector<CurvePoint>& points, const Axis& steps,
                               int count) {
  std::vector<Column> columns;
  double sum = 0;
  int placed = 0;
  const auto close = [&] {
    if (!columns.empty()) columns.back().loss = placed > 0 ? sum / placed : NAN;
    sum = placed = 0;
  };
  for (const CurvePoint& point : points) {
    if (!has_place(point.step)) continue;
    const int index = static_cast<int>(std::lround(steps.part(point.step) * (count - 1)));
    if (columns.empty() || columns.back().index != index) {
      close();
      columns.push_back({index, NAN});
    }
    if (!has_place(point.loss)) continue;
    sum += point.loss;
    ++placed;
  }
  close();
  return columns;
}

std::string remark(const Axes& axes) {
  return axes.not_finite == 0 ? "" : std::to_string(axes.not_finite) + " not finite";
}

}  // namespace coda::train

// SPDX-License-Identifier: Apache-2.0
// What both plots of a curve share: the ranges and ticks of its axes, and as many points as there
// are columns to show them.
#pragma once

#include <string>
#include <vector>

#include "train/curve.h"

namespace coda::train {

struct Tick {
  double value;
  std::string label;
};

struct Axis {
  double low = 0, high = 1;  // low is below high
  std::vector<Tick> ticks;   // ascending, at round numbers

  /// 0 at low, 1 at high.
  double part(double value) const { return (value - low) / (high - low); }
};

struct Axes {
  Axis steps;
  Axis losses;
  int plotted = 0;     // points that have a place
  int not_finite = 0;  // points that have none
};

/// With at most so many ticks, two of them at least.
Axes axes_of(const Curve& curve, int most_steps, int most_losses);

/// The mean loss of the points that fall into one column; NaN where none of them has a place.
struct Column {
  int index;
  double loss;
};

/// By increasing index; columns without any point are left out.
std::vector<Column> columns_of(const std::vector<CurvePoint>& points, const Axis& steps, int count);

/// "2 not finite", or nothing.
std::string remark(const Axes& axes);

}  // namespace coda::train

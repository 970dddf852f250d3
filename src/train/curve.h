// SPDX-License-Identifier: Apache-2.0
// The loss over the steps of a run, as text for a terminal and as an SVG.
//
// A run that diverges is the one that is looked at: losses that are not finite leave a gap, and how
// many there are is said. Where there are more steps than columns, a column shows their mean.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/curve_metrics.h"

namespace coda::train {

struct CurvePoint {
  double step;
  double loss;
};

/// Each by increasing step.
struct Curve {
  std::vector<CurvePoint> train;
  std::vector<CurvePoint> held_out;
};

Curve curve_of(std::span<const Metrics> metrics);

struct PlotOptions {
  int columns = 72;    // of the whole plot; 40 to 1000
  int rows = 12;       // of the area of the curve; 4 to 200
  bool ascii = false;  // where the terminal may not show braille
};

/// Lines of at most `columns` characters, each with its end. Refuses sizes out of range.
std::string terminal_plot(const Curve& curve, const PlotOptions& options = {});

/// A file's text, which refers to nothing outside of it.
std::string svg_plot(const Curve& curve, std::string_view title);

}  // namespace coda::train

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "train/curve.h"
#include "train/curve_axis.h"

namespace coda::train {
namespace {

constexpr int kWidth = 720, kHeight = 400;
constexpr int kLeft = 72, kRight = 20, kTop = 48, kBottom = 52;
constexpr int kAcross = kWidth - kLeft - kRight, kDown = kHeight - kTop - kBottom;

constexpr const char* kTrainColour = "#1f6fb4";
constexpr const char* kHeldOutColour = "#d1492e";

/// As text of XML: its five characters escaped, control characters, which it cannot have, as
/// spaces.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

double x_of(const Axes& axes, double step) { return kLeft + axes.steps.part(step) * kAcross; }
double y_of(const Axes& axes, double loss) { return kTop + (1 - axes.losses.part(loss)) * kDown; }

std::string label(double x, double y, const char* anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string grid(const Axes& axes) {
  std::string text = "<g stroke=\"#dddddd\">\n";
  for (const Tick& tick : axes.losses.ticks)
    text += fmt::format("<path d=\"M{} {:.1f}h{}\"/>\n", kLeft, y_of(axes, tick.value), kAcross);
  for (const Tick& tick : axes.steps.ticks)
    text += fmt::format("<path d=\"M{:.1f} {}v{}\"/>\n", x_of(axes, tick.value), kTop, kDown);
  text += "</g>\n";
  text += fmt::format("<path d=\"M{} {}v{}h{}\" fill=\"none\" stroke=\"#333333\"/>\n", kLeft, kTop,
                      kDown, kAcross);
  for (const Tick& tick : axes.losses.ticks)
    text += label(kLeft - 8, y_of(axes, tick.value) + 4, "end", tick.label);
  for (const Tick& tick : axes.steps.ticks)
    text += label(x_of(axes, tick.value), kTop + kDown + 18, "middle", tick.label);
  text += label(kLeft + kAcross / 2.0, kHeight - 12, "middle", "step");
  return text + label(kLeft - 8, kTop - 14, "end", "loss");
}

/// Columns without a gap between them.
std::vector<std::vector<Column>> runs_of(const std::vector<Column>& columns) {
  std::vector<std::vector<Column>> runs(1);
  for (const Column& column : columns) {
    if (!std::isnan(column.loss))
      runs.back().push_back(column);
    else if (!runs.back().empty())
      runs.emplace_back();
  }
  return runs;
}

/// Lines between neighbours, and dots at all of them or at those that have none.
std::string series(const std::vector<CurvePoint>& points, const Axes& axes, const char* colour,
                   bool dots) {
  std::string lines, circles;
  for (const auto& run : runs_of(columns_of(points, axes.steps, kAcross + 1))) {
    std::string line;
    for (const Column& column : run) {
      const int x = kLeft + column.index;
      const double y = y_of(axes, column.loss);
      line += fmt::format("{}{},{:.1f}", line.empty() ? "" : " ", x, y);
      if (dots || run.size() == 1)
        circles += fmt::format("<circle cx=\"{}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", x, y);
    }
    if (run.size() > 1) lines += fmt::format("<polyline points=\"{}\"/>\n", line);
  }
  return fmt::format(
      "<g fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\">\n{}</g>\n<g fill=\"{}\">\n{}</g>\n",
      colour, lines, colour, circles);
}

std::string legend(double x, const char* colour, std::string_view name) {
  return fmt::format("<path d=\"M{:.1f} {}h24\" stroke=\"{}\" stroke-width=\"2\"/>\n", x, kTop - 18,
                     colour) +
         label(x + 30, kTop - 14, "start", name);
}

}  // namespace

std::string svg_plot(const Curve& curve, std::string_view title) {
  const Axes axes = axes_of(curve, 8, 8);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\" role=\"img\">\n"
      "<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight, escaped(title));
  text += label(kLeft, 18, "start", title);
  text += grid(axes);
  text += series(curve.train, axes, kTrainColour, false);
  text += series(curve.held_out, axes, kHeldOutColour, true);
  text += legend(kWidth - kRight - 180, kTrainColour, "train");
  text += legend(kWidth - kRight - 90, kHeldOutColour, "held-out");
  const std::string note = axes.plotted == 0 ? "no loss to plot" : "";
  text += label(kLeft + kAcross / 2.0, kTop + kDown / 2.0, "middle", note);
  text += label(kWidth - kRight, 18, "end", remark(axes));
  return text + "</svg>\n";
}

}  // namespace coda::train

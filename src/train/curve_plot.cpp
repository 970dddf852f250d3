// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/curve.h"
#include "train/curve_axis.h"

namespace coda::train {
namespace {

/// How a terminal shows it: a character holds dots of `width` by `height`.
struct Style {
  int width, height;
  const char *train, *held_out, *side, *tick, *corner, *floor;
};
constexpr Style kBraille = {2, 4, "⠒", "o", "│", "┤", "└", "─"};
constexpr Style kAscii = {1, 1, "*", "o", "|", "+", "+", "-"};

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

/// The area of the curve: dots, and marks that stand for whole characters.
class Canvas {
 public:
  Canvas(const Style& style, int columns, int rows)
      : style_(style),
        columns_(columns),
        rows_(rows),
        dots_(static_cast<size_t>(columns * style.width * rows * style.height)),
        marks_(static_cast<size_t>(columns * rows)) {}

  void draw_line(const std::vector<CurvePoint>& points, const Axes& axes) {
    const Column* before = nullptr;
    const auto columns = columns_of(points, axes.steps, columns_ * style_.width);
    for (const Column& column : columns) {
      if (std::isnan(column.loss)) {
        before = nullptr;
        continue;
      }
      const int y = height_of(axes.losses.part(column.loss), rows_ * style_.height);
      if (before == nullptr) {
        dot(column.index, y);
      } else {
        connect(before->index, height_of(axes.losses.part(before->loss), rows_ * style_.height),
                column.index, y);
      }
      before = &column;
    }
  }

  void draw_marks(const std::vector<CurvePoint>& points, const Axes& axes) {
    for (const Column& column : columns_of(points, axes.steps, columns_))
      if (!std::isnan(column.loss))
        marks_[index(column.index, height_of(axes.losses.part(column.loss), rows_), columns_)] = 1;
  }

  std::string row(int y) const {
    std::string text;
    for (int x = 0; x < columns_; ++x)
      text += marks_[index(x, y, columns_)] ? style_.held_out : character(x, y);
    return text;
  }

  /// The row, from the top, in which a part of the height lies.
  static int height_of(double part, int rows) {
    return rows - 1 - static_cast<int>(std::lround(std::clamp(part, 0.0, 1.0) * (rows - 1)));
  }

 private:
  static size_t index(int x, int y, int width) {
    return static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
  }

  void dot(int x, int y) { dots_[index(x, y, columns_ * style_.width)] = 1; }
  bool has_dot(int x, int y) const { return dots_[index(x, y, columns_ * style_.width)] != 0; }

  /// Every column between the two has a dot, and every row.
  void connect(int from_x, int from_y, int to_x, int to_y) {
    int before = from_y;
    for (int x = from_x; x <= to_x; ++x) {
      const double part = static_cast<double>(x - from_x) / (to_x - from_x);
      const int y = from_y + static_cast<int>(std::lround(part * (to_y - from_y)));
      const auto [top, bottom] = std::minmax(before, y);
      dot(x, y);
      for (int between = top + 1; between < bottom; ++between) dot(x, between);
      before = y;
    }
  }

  std::string character(int x, int y) const {
    if (style_.height == 1) return has_dot(x, y) ? style_.train : " ";
    // Dot numbers of braille by row and column; the characters start at U+2800.
    constexpr int bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int set = 0;
    for (int row = 0; row < 4; ++row)
      for (int column = 0; column < 2; ++column)
        if (has_dot(2 * x + column, 4 * y + row)) set |= bits[row][column];
    if (set == 0) return " ";
    return {'\xe2', static_cast<char>(0xa0 | set >> 6), static_cast<char>(0x80 | (set & 0x3f))};
  }

  Style style_;
  int columns_, rows_;
  std::vector<char> dots_, marks_;
};

/// Labels below their ticks, as far as they do not touch each other.
std::string step_labels(const Axis& steps, int margin, int columns) {
  std::string line(static_cast<size_t>(margin), ' ');
  for (const Tick& tick : steps.ticks) {
    const int width = static_cast<int>(tick.label.size());
    const int middle =
        margin + static_cast<int>(std::lround(steps.part(tick.value) * (columns - 1)));
    const int start = std::min(middle - width / 2, margin + columns - width);
    const int free = static_cast<int>(line.size()) + (line.size() > static_cast<size_t>(margin));
    if (start < std::max(0, tick.value == steps.ticks.front().value ? 0 : free)) continue;
    line.resize(static_cast<size_t>(start), ' ');
    line += tick.label;
  }
  return line;
}

void check(const char* name, int value, int least, int most) {
  if (value < least || value > most)
    throw Error(ErrorKind::argument, std::string("plot: ") + name,
                fmt::format("{} to {}", least, most), std::to_string(value), "correct the value");
}

}  // namespace

std::string terminal_plot(const Curve& curve, const PlotOptions& options) {
  check("columns", options.columns, 40, 1000);
  check("rows", options.rows, 4, 200);
  const Style& style = options.ascii ? kAscii : kBraille;
  const Axes axes =
      axes_of(curve, std::max(2, options.columns / 14), std::max(3, options.rows * 2 / 3));
  std::string note = remark(axes);
  if (!note.empty()) note = " (" + note + ")";
  if (axes.plotted == 0) return "no loss to plot" + note + "\n";

  size_t label_width = 0;
  for (const Tick& tick : axes.losses.ticks) label_width = std::max(label_width, tick.label.size());
  const int margin = static_cast<int>(label_width) + 2;
  Canvas canvas(style, options.columns - margin, options.rows);
  canvas.draw_line(curve.train, axes);
  canvas.draw_marks(curve.held_out, axes);

  std::vector<std::string> labels(static_cast<size_t>(options.rows));
  for (const Tick& tick : axes.losses.ticks)
    labels[static_cast<size_t>(Canvas::height_of(axes.losses.part(tick.value), options.rows))] =
        tick.label;
  std::string text = fmt::format("{:>{}} {} train", "loss", margin, style.train);
  if (!curve.held_out.empty()) text += fmt::format("  {} held-out", style.held_out);
  text += note + "\n";
  for (int y = 0; y < options.rows; ++y) {
    const std::string& label = labels[static_cast<size_t>(y)];
    text += fmt::format("{:>{}} {}{}\n", label, label_width,
                        label.empty() ? style.side : style.tick, canvas.row(y));
  }
  text += fmt::format("{:>{}} {}{}\n", "", label_width, style.corner,
                      repeated(style.floor, options.columns - margin));
  return text + step_labels(axes.steps, margin, options.columns - margin) + "\n";
}

}  // namespace coda::train

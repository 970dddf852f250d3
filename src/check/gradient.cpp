// SPDX-License-Identifier: Apache-2.0
// The derivative against finite differences. Everything is evaluated in float64 without rounding;
// the loss is the sum over all differentiated outputs of random weights times their elements. Every
// element of every differentiated input is moved.
#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/check.h"
#include "check/draw.h"

namespace coda::check {
namespace {

using reference::Dense;

constexpr double kLimit = 1e-6;         // relative to the largest gradient
constexpr double kKinkDistance = 1e-3;  // inputs closer to a kink are drawn again
constexpr int kDraws = 300;
const reference::Options kExact{.mode = reference::Mode::exact};

template <class Declarations>
int find(const Declarations& declarations, std::string_view name) {
  for (size_t i = 0; i < declarations.size(); ++i)
    if (declarations[i].name == name) return static_cast<int>(i);
  return -1;
}

class Gradient {
 public:
  Gradient(const ir::Program& program, const Derivative& derivative, std::vector<int64_t> symbols,
           uint64_t seed)
      : program_(program),
        forward_(derivative.forward.ir()),
        backward_(derivative.backward.ir()),
        moving_(program),
        symbols_(std::move(symbols)),
        seed_(seed) {
    std::erase_if(moving_.outputs, [&](const ir::Output& output) {
      return find(backward_.inputs, "d_" + output.name) < 0;
    });
  }

  /// Draws inputs away from kinks, then evaluates the backward program.
  void run() {
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<Dense> inputs = draw_dense(program_, symbols_, seed_ + 1000003u * draw);
      double kink = HUGE_VAL;
      reference::evaluate(moving_, symbols_, inputs,
                          {.mode = reference::Mode::exact, .nearest_kink = &kink});
      if (kink <= distance_ && draw > 0) continue;
      distance_ = kink;
      inputs_ = std::move(inputs);
      if (kink >= kKinkDistance) break;
    }
    saved_ = reference::evaluate(forward_, symbols_, inputs_, kExact);
    std::vector<Dense> arguments;
    for (const ir::Input& input : backward_.inputs) arguments.push_back(argument(input));
    gradients_ = reference::evaluate(backward_, symbols_, arguments, kExact);
  }

  double kink_distance() const { return distance_; }
  size_t count() const { return backward_.outputs.size(); }

  /// Compares the gradient that output `index` of the backward program is.
  Row compare(size_t index) const {
    Row row;
    row.what = "gradient";
    row.output = backward_.outputs[index].name;
    const int input = row.output.starts_with("d_")
                          ? find(program_.inputs, std::string_view(row.output).substr(2))
                          : -1;
    if (input < 0) {
      row.message = "an output the backward has besides gradients";
      return row;
    }
    const Dense& gradient = gradients_[index];
    if (gradient.size() != inputs_[input].size())
      throw Error(ErrorKind::check, row.output, "the shape of the input", "another shape");
    double largest = 1e-3, error = 0;
    int64_t worst = 0;
    double got = 0, expected = 0;
    for (int64_t i = 0; i < gradient.size(); ++i) {
      const double g = gradient.value[i];
      const double difference = slope(input, i, g);
      largest = std::max({largest, std::fabs(g), std::fabs(difference)});
      const double distance = std::fabs(g - difference);
      if (distance <= error && std::isfinite(distance)) continue;
      error = std::isfinite(distance) ? distance : HUGE_VAL;
      worst = i, got = g, expected = difference;
    }
    row.ratio = error / (kLimit * largest);
    row.ok = row.ratio <= 1;
    if (!row.ok)
      row.message =
          fmt::format("element {} is {:.9g}, finite differences give {:.9g}; largest {:.3g}", worst,
                      got, expected, largest);
    return row;
  }

 private:
  /// A value that the backward program loads: an upstream gradient, a saved output or an input.
  Dense argument(const ir::Input& input) const {
    const std::string_view name = input.name;
    if (name.starts_with("d_") && find(program_.inputs, name) < 0)
      if (const int output = find(program_.outputs, name.substr(2)); output >= 0)
        return weights(output);
    if (const int output = find(forward_.outputs, name); output >= 0) return saved_[output];
    if (const int original = find(program_.inputs, name); original >= 0) return inputs_[original];
    throw Error(ErrorKind::check, "input '" + input.name + "' of the backward program",
                "an upstream gradient, an output or an input of the forward", "none of that name");
  }

  Dense weights(int output) const {
    const auto [rows, columns] = reference::extent(program_.outputs[output].dims, symbols_);
    Dense result{rows, columns, {}, {}, {}};
    Random random(seed_, "d_" + program_.outputs[output].name);
    for (int64_t i = 0; i < rows * columns; ++i) result.value.push_back(random.normal());
    return result;
  }

  bool has_upstream(const ir::Output& output) const {
    return find(backward_.inputs, "d_" + output.name) >= 0;
  }

  /// Sum of weights times the change of the outputs when element i of an input moves from -h to +h.
  double change(int input, int64_t i, double h) const {
    std::vector<Dense> moved = inputs_;
    const double x = inputs_[input].value[i];
    moved[input].value[i] = x + h;
    const std::vector<Dense> above = reference::evaluate(program_, symbols_, moved, kExact);
    moved[input].value[i] = x - h;
    const std::vector<Dense> below = reference::evaluate(program_, symbols_, moved, kExact);
    double sum = 0;
    for (size_t o = 0; o < above.size(); ++o) {
      if (above[o].value.empty() || !has_upstream(program_.outputs[o])) continue;
      const Dense w = weights(static_cast<int>(o));
      for (size_t k = 0; k < above[o].value.size(); ++k) {
        const double up = above[o].value[k], down = below[o].value[k];
        if (!std::isfinite(up) && (up == down || (up != up && down != down)))
          continue;  // of nothing
        sum += w.value[k] * (up - down);
      }
    }
    return sum;
  }

  /// Central differences of fourth order. Of two step widths the one nearer to `guess` counts: a
  /// wide step loses to curvature (or steps over a kink), a narrow one to rounding.
  double slope(int input, int64_t i, double guess) const {
    double best = HUGE_VAL;
    for (const double width : {1e-4, 1e-5, 1e-3, 1e-6, 1e-7, 1e-8}) {
      const double h = width * std::max(1.0, std::fabs(inputs_[input].value[i]));
      const double d = (8 * change(input, i, h) - change(input, i, 2 * h)) / (12 * h);
      if (!(std::fabs(d - guess) >= std::fabs(best - guess))) best = d;
      if (std::fabs(best - guess) <= 0.1 * kLimit * std::fabs(guess)) break;
    }
    return best;
  }

  const ir::Program& program_;
  const ir::Program& forward_;
  const ir::Program& backward_;
  ir::Program moving_;  // the program with its differentiated outputs alone
  std::vector<int64_t> symbols_;
  uint64_t seed_;
  double distance_ = 0;  // of the drawn inputs from a kink
  std::vector<Dense> inputs_, saved_, gradients_;
};

}  // namespace

std::vector<Row> check_gradient(const Program& program, const Derivative& derivative, const Case& c,
                                const Options& options) {
  Row base;
  base.what = "gradient";
  base.c = c;
  std::vector<int64_t> symbols = draw_sizes(program.ir(), options.sizes, c.n, c.seed);
  for (size_t i = ir::kFirstParameter; i < symbols.size(); ++i)
    base.sizes[program.ir().symbols[i]] = symbols[i];
  symbols[ir::kSymbolM] = c.m, symbols[ir::kSymbolN] = c.n;
  Gradient gradient(program.ir(), derivative, symbols, c.seed);
  gradient.run();
  if (gradient.kink_distance() < kKinkDistance / 10) {
    base.message = "left out: every draw lies close to a kink";
    return {base};
  }
  std::vector<Row> rows;
  for (size_t i = 0; i < gradient.count(); ++i) {
    Row row = gradient.compare(i);
    row.c = base.c, row.sizes = base.sizes;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> check_gradient(const Program& program, const Case& c, const Options& options) {
  try {
    return check_gradient(program, differentiate(program), c, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::program) throw;
    Row row;
    row.what = "gradient", row.c = c;
    row.message = std::string("no derivative: ") + error.what();
    return {row};
  }
}

}  // namespace coda::check

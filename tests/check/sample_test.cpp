// SPDX-License-Identifier: Apache-2.0
// Parts of a call agree with the whole of it, and tell where an element is wrong.
#include "check/sample.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/convert.h"
#include "check/draw.h"
#include "check/generate.h"
#include "check/programs.h"
#include "check_support.h"

namespace coda::check {
namespace {

void fetch(std::byte* to, const std::byte* from, int64_t width, int64_t pitch, int64_t height) {
  for (int64_t i = 0; i < height; ++i)
    std::memcpy(to + i * width, from + i * pitch, static_cast<size_t>(width));
}

/// A drawn call, and outputs with what the reference makes of the whole of it.
struct Whole {
  Whole(const Instance& with, int64_t m, int64_t n, int64_t k, uint64_t seed)
      : instance(with),
        drawn(instance, sized(with.symbols, m, n), k, seed),
        call((drawn.tell_sizes(), bind(instance, drawn.arguments(), Device{}))) {
    const ir::Program& program = *instance.program;
    const std::vector<reference::Dense> values = reference::evaluate(
        program, call.symbols, reference::inputs_of(program, call), {.type = instance.type});
    for (size_t o = 0; o < values.size(); ++o) {
      const reference::Dense& value = values[o];
      const DType type = storage(program.outputs[o].type, instance);
      const auto width = static_cast<int64_t>(size_of(type));
      std::vector<std::byte>& memory =
          outputs.emplace_back(static_cast<size_t>(value.size() * width));
      for (int64_t i = 0; i < value.size(); ++i) {
        std::byte* const at = memory.data() + i * width;
        if (is_float(type))
          store_element(
              at, type,
              value.value.empty() ? static_cast<double>(value.integer[i]) : value.value[i]);
        else
          store_integer(at, type, value.integer[i]);
      }
      call.outputs[o] = {Axis::columns,
                         value.rows,
                         value.columns,
                         {{0, value.columns, {memory.data(), value.columns, 1, type}}}};
    }
  }
  static std::vector<int64_t> sized(std::vector<int64_t> symbols, int64_t m, int64_t n) {
    symbols[ir::kSymbolM] = m, symbols[ir::kSymbolN] = n;
    return symbols;
  }
  Samples samples(const SampleCounts& counts) const {
    return choose_samples(*instance.program, call.symbols, 24, counts, 3);
  }
  std::vector<Finding> check(const std::vector<Part>& parts) const {
    return check_parts(instance, call, parts, fetch, 2);
  }

  Instance instance;
  DrawnCall drawn;
  BoundCall call;
  std::vector<std::vector<std::byte>> outputs;
};

constexpr SampleCounts kAll{4, 2, 2, int64_t{1} << 40};

/// An N of some units, so that parts are less than the whole.
int64_t some_columns(const Instance& instance, int64_t least) {
  const int64_t unit = column_unit(*instance.program, instance.symbols);
  return std::max<int64_t>((least + unit - 1) / unit, 3) * unit;
}

void expect_parts_agree(const Whole& whole, const std::string& name) {
  SCOPED_TRACE(name);
  const ir::Program& program = *whole.instance.program;
  const Samples samples = whole.samples(kAll);
  EXPECT_TRUE(samples.uncovered.empty()) << samples.uncovered[0];
  std::vector<bool> covered(program.outputs.size());
  for (const Finding& finding : whole.check(samples.parts)) {
    covered[finding.output] = true;
    EXPECT_TRUE(finding.comparison.ok())
        << "part " << finding.part << ", '" << program.outputs[finding.output].name
        << "': " << to_string(finding.comparison);
  }
  for (size_t o = 0; o < covered.size(); ++o) EXPECT_TRUE(covered[o]) << program.outputs[o].name;
}

/// Puts a wrong element into the last row and first column of a part that begins with column 0.
void spoil(const Whole& whole, const Part& part, size_t output) {
  const int64_t row = whole.instance.program->outputs[output].dims.rows ? part.rows.end - 1 : 0;
  const View& view = whole.call.outputs[output].segments[0].view;
  std::byte* const at =
      view.data + row * view.row_stride * static_cast<int64_t>(size_of(view.dtype));
  if (is_float(view.dtype))
    store_element(at, view.dtype, std::numeric_limits<double>::quiet_NaN());
  else
    store_integer(at, view.dtype, load_integer(at, view.dtype) ^ 0x55);
}

TEST(Samples, parts_of_every_program_agree_with_the_whole_and_find_a_wrong_element) {
  for (const NamedProgram& named : all_programs()) {
    const Instance instance = instance_of(named.program, DType::f32);
    const Whole whole(instance, 37, some_columns(instance, 150), 24, 5);
    expect_parts_agree(whole, named.name);
    SCOPED_TRACE(named.name);
    const Samples samples = whole.samples(kAll);
    const std::vector<Finding> sound = whole.check(samples.parts);
    std::vector<bool> spoilt(named.program.outputs.size());
    for (const Finding& finding : sound) {
      if (spoilt[finding.output] || finding.comparison.elements == 0) continue;
      spoilt[finding.output] = true;
      const Part& part = samples.parts[finding.part];
      ASSERT_EQ(part.columns.begin, 0);
      spoil(whole, part, finding.output);
    }
    std::vector<bool> found(spoilt.size());
    for (const Finding& finding : whole.check(samples.parts))
      found[finding.output] = found[finding.output] || !finding.comparison.ok();
    for (size_t o = 0; o < found.size(); ++o)
      EXPECT_EQ(found[o], spoilt[o]) << named.program.outputs[o].name;
  }
}

TEST(Samples, parts_of_generated_programs_agree_with_the_whole) {
  for (uint64_t seed = 1; seed <= seeds(60, 2000); ++seed) {
    const ir::Program program = random_program(seed);
    Instance instance{std::make_shared<const ir::Program>(program), DType::f32,
                      draw_sizes(program, {}, 50, seed)};
    const int64_t n = some_columns(instance, 150);
    if (n > 2000) continue;
    expect_parts_agree(Whole(instance, 37, n, 24, seed), "seed " + std::to_string(seed));
  }
}

Instance parsed(const std::string& text) {
  return instance_of(Program::parse("coda 1\n" + text).ir(), DType::f32);
}

TEST(Samples, places_and_sizes_are_those_of_the_whole_call) {
  const Instance instance = parsed(
      "program p(a: acc, t: f32[n % 48]) -> y: f32[m, n], best: i64[m], low: i64[n], h: f32[m, "
      "n/2],"
      " g: f32[m, n:32] {\n"
      "  y = a + m * 3 + n * 5 + M * 7 + N * 11 + t\n"
      "  best = argmax[m](y * 0 + (n == 77))\n  low = argmax[n](y * 0 + (m == 29))\n"
      "  u, v = split(y, 16)\n  h = u - v\n  g = max[m, n:32](y)\n}");
  const Whole whole(instance, 37, 192, 24, 1);
  expect_parts_agree(whole, "p");
  EXPECT_EQ(load_integer(whole.outputs[1].data(), DType::i64), 77);
  EXPECT_EQ(load_integer(whole.outputs[2].data(), DType::i64), 29);
}

TEST(Samples, a_wrong_element_is_named_by_its_place_in_the_whole) {
  const Whole whole(parsed("program p(a: acc) -> y: f32[m, n] {\n  y = a\n}"), 100, 300, 24, 1);
  float* const y = reinterpret_cast<float*>(const_cast<std::byte*>(whole.outputs[0].data()));
  const Part part{{40, 56}, {128, 192}};
  y[56 * 300 + 130] += 1, y[41 * 300 + 192] += 1;  // beside it
  EXPECT_TRUE(whole.check({part})[0].comparison.ok());
  y[55 * 300 + 191] += 1;
  const reference::Comparison found = whole.check({part})[0].comparison;
  EXPECT_EQ(found.failures, 1);
  EXPECT_EQ(found.row, 55);
  EXPECT_EQ(found.column, 191);
}

TEST(Samples, what_needs_everything_is_named_where_that_is_too_much) {
  const Instance instance = parsed(
      "program p(a: acc) -> y: f32[m, n], r: f32[m], total: f32[], c: f32[n], t: f32[n % 4] {\n"
      "  y = a\n  r = sum[m](a)\n  total = sum[](a)\n  c = sum[n](a)\n  t = sum[n % 4](a)\n}");
  const std::vector<int64_t> symbols = Whole::sized(instance.symbols, 1000, 4096);
  const SampleCounts counts;
  const Samples samples = choose_samples(*instance.program, symbols, 4096, counts, 1);
  EXPECT_EQ(samples.uncovered, (std::vector<std::string>{"total", "t"}));
  ASSERT_EQ(samples.parts.size(), 68u);
  EXPECT_EQ(samples.parts[0].rows.end, 16);
  EXPECT_EQ(samples.parts[0].columns.end, 64);
  EXPECT_EQ(samples.parts[1].rows.end, 1000);
  EXPECT_EQ(samples.parts[1].columns.end, 4096);
  EXPECT_EQ(samples.parts[64].columns.size(), 4096);
  EXPECT_EQ(samples.parts[66].rows.size(), 1000);
  EXPECT_EQ(samples.parts[66].columns.size(), 16);
}

}  // namespace
}  // namespace coda::check

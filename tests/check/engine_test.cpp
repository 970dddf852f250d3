// SPDX-License-Identifier: Apache-2.0
// The engine draws what the language says, varies layouts, and finds faults that are put in on
// purpose.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include "base/convert.h"
#include "check/check.h"
#include "check/draw.h"
#include "check/shrink.h"
#include "check_support.h"
#include "language/printer.h"

namespace coda::check {
namespace {

constexpr const char* kNorm = R"(coda 1
program norm<dh>(a: acc, x: T[m, n], w: T[n % dh], pos: i64[m], target: i32[m], keep: u8[m, n],
                 eps: f32) -> y: T[m, n], r: f32[m] {
  s = a + x * w
  p, q = split(where(keep, s, 0), dh/2)
  y = join(p*cos(pos * 0.5), where(m % 2 == 0, q, p), dh/2) + (n == target)
  r = rsqrt(mean[m](s*s) + eps)
}
)";

constexpr const char* kSum = R"(coda 1
program add(a: acc, x: T[m, n]) -> y: T[m, n], total: f32[n] {
  y = a + x
  total = sum[n](y)
}
)";

Options quiet(Run run) {
  Options options;
  options.run = std::move(run);
  options.threads = 2;
  options.seconds = 60;
  return options;
}

TEST(Draw, inputs_come_from_what_their_use_asks_for) {
  const Program program = Program::parse(R"(coda 1
program p(a: acc, v: f32[m], d: T[n], x: T[m, n], e: f32, label: i64[m], pos: i32[m], keep: u8[m, n])
    -> y: T[m, n] {
  y = where(keep, (a - x) / sqrt(v + e) / d + x * pos, 0) * (n == label)
}
)");
  using enum Source;
  EXPECT_EQ(sources_of(program.ir()), (std::vector<Source>{normal, positive, positive, normal,
                                                           positive, column, index, byte}));
}

TEST(Draw, sizes_of_pairs_are_8_and_others_lie_within_n) {
  const Program program = Program::parse(R"(coda 1
program p<dh, rot>(a: acc) -> y: T[m, n] {
  y = where(n < rot, swap(a, dh/2, dh), a)
}
)");
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto sizes = draw_sizes(program.ir(), {}, 24, seed);
    EXPECT_EQ(sizes[2], 8);
    EXPECT_GE(sizes[3], 0);
    EXPECT_LE(sizes[3], 24);
    seen.insert(sizes[3]);
  }
  EXPECT_GT(seen.size(), 10u);
  EXPECT_EQ(draw_sizes(program.ir(), {{"dh", 16}}, 24, 1)[2], 16);
  EXPECT_EQ(column_unit(program.ir(), draw_sizes(program.ir(), {}, 24, 1)), 8);
}

/// What layouts the calls of many seeds use.
struct Layouts {
  bool padded = false, by_columns = false, repeated = false, strided = false;
  bool segments = false, weights = false, products = false, odd_address = false, in_place = false;
};

void look(const Arguments& arguments, Layouts& seen) {
  for (const auto& [name, tensor] : arguments.state().tensors) {
    seen.segments |= tensor.segments.size() > 1;
    for (const TensorView& v : tensor.segments) {
      seen.odd_address |= reinterpret_cast<uintptr_t>(v.data) % 16 != 0;
      for (const auto& [other, same] : arguments.state().tensors)
        seen.in_place |= other != name && same.segments[0].data == v.data;
      if (v.rank != 2) continue;
      seen.padded |= v.strides[1] == 1 && v.strides[0] > v.shape[1];
      seen.by_columns |= v.strides[0] == 1 && v.shape[0] > 1 && v.strides[1] > 1;
      seen.repeated |= v.strides[0] == 0 && v.shape[0] > 1;
      seen.strided |= v.strides[0] > 1 && v.strides[1] > 1;
    }
  }
  for (const auto& [name, terms] : arguments.state().products) {
    seen.products |= terms.size() > 1;
    for (const auto& term : terms) seen.weights |= term.b.size() > 1;
  }
}

TEST(Engine, a_right_backend_passes_in_many_layouts) {
  Layouts seen;
  std::mutex mutex;
  Options options = quiet([&](const Program& p, const CompileOptions& o, const Arguments& a) {
    {
      const std::lock_guard lock(mutex);
      look(a, seen);
    }
    run_on_cpu(p, o, a);
  });
  for (const char* text : {kNorm, kSum}) {
    const Report report = check(Program::parse(text), options);
    EXPECT_TRUE(report.ok());
    for (const Row& row : report.rows)
      EXPECT_TRUE(row.ok) << row.what << " " << row.message << "\n" << row.repeat;
    EXPECT_GT(report.rows.size(), 40u);
    EXPECT_EQ(report.skipped, 0);
  }
  EXPECT_TRUE(seen.padded && seen.by_columns && seen.repeated && seen.strided);
  EXPECT_TRUE(seen.segments && seen.weights && seen.products && seen.odd_address && seen.in_place);
}

TEST(Engine, columns_that_pairs_do_not_divide_must_be_refused) {
  const Report report = check(Program::parse(kNorm), quiet(run_on_cpu));
  int refusals = 0;
  for (const Row& row : report.rows) refusals += row.what.starts_with("refusal");
  EXPECT_GE(refusals, 3);  // 1, 97 and 131 columns in pairs of 8
}

/// Rows that fail when `damage` is done to the outputs of a right run.
std::vector<Row> failures(const std::function<void(const Arguments&, bool fused)>& damage,
                          const char* text = kSum, Case c = {5, 24, 8, DType::f32, 3}) {
  std::vector<Row> rows =
      check_case(Program::parse(text), c,
                 quiet([&](const Program& p, const CompileOptions& o, const Arguments& a) {
                   run_on_cpu(p, o, a);
                   damage(a, o.fused);
                 }));
  std::erase_if(rows, [](const Row& row) { return row.ok; });
  return rows;
}

const TensorView& last_segment(const Arguments& arguments, const char* name) {
  return arguments.state().tensors.find(name)->second.segments.back();
}

TEST(Engine, one_wrong_element_is_found_and_named) {
  const auto rows = failures([](const Arguments& a, bool fused) {
    if (!fused) return;
    const TensorView& y = last_segment(a, "y");
    auto* at = static_cast<float*>(y.data) + (y.shape[0] - 1) * y.strides[0] +
               (y.shape[1] - 1) * y.strides[1];
    *at += std::fabs(*at) * 1e-4f + 1e-4f;
  });
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].what, "fused");
  EXPECT_EQ(rows[0].output, "y");
  EXPECT_NE(rows[0].message.find("element [4, 23]"), std::string::npos) << rows[0].message;
  EXPECT_NE(rows[0].repeat.find("--case 5x24x8:f32 --seed 3"), std::string::npos) << rows[0].repeat;
}

TEST(Engine, an_element_that_was_not_written_is_found) {
  const auto rows = failures([](const Arguments& a, bool) {
    const TensorView& total = last_segment(a, "total");
    static_cast<float*>(total.data)[0] = std::nanf("");
  });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].output, "total");
}

TEST(Engine, bytes_written_around_an_output_are_found) {
  for (const int64_t offset : {-1, -16}) {
    const auto rows = failures([&](const Arguments& a, bool) {
      const TensorView& y = a.state().tensors.find("y")->second.segments.front();
      static_cast<std::byte*>(y.data)[offset] = std::byte{0};
    });
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_NE(rows[0].message.find("outside of the outputs"), std::string::npos) << rows[0].message;
  }
}

TEST(Engine, an_input_that_was_written_is_found) {
  const auto rows = failures([](const Arguments& a, bool) {
    auto* x = static_cast<std::byte*>(last_segment(a, "x").data);
    x[0] ^= std::byte{1};
  });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NE(rows[1].message.find("'x', 0 bytes"), std::string::npos) << rows[1].message;
}

TEST(Engine, what_a_backend_throws_is_a_failure) {
  const auto rows = failures(
      [](const Arguments&, bool) { throw Error(ErrorKind::unsupported, "here", "that", "this"); });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NE(rows[0].message.find("expected that, got this"), std::string::npos);
}

TEST(Engine, the_time_limit_leaves_cases_out_and_says_so) {
  Options options = quiet(run_on_cpu);
  options.seconds = 0;
  const Report report = check(Program::parse(kSum), options);
  EXPECT_TRUE(report.rows.empty());
  EXPECT_GT(report.skipped, 10);
}

TEST(Engine, results_do_not_depend_on_the_number_of_workers) {
  Options options = quiet(run_on_cpu);
  options.only = Case{3, 24, 5, DType::bf16, 9};
  const Report one = check(Program::parse(kNorm), options);
  options.threads = 1;
  const Report two = check(Program::parse(kNorm), options);
  ASSERT_EQ(one.rows.size(), two.rows.size());
  for (size_t i = 0; i < one.rows.size(); ++i) EXPECT_EQ(one.rows[i].ratio, two.rows[i].ratio);
}

TEST(Case, text_and_value_are_inverse) {
  const Case c{33, 96, 40, DType::bf16, 1};
  EXPECT_EQ(to_string(c), "33x96x40:bf16");
  EXPECT_EQ(to_string(parse_case("33x96x40:bf16")), "33x96x40:bf16");
  for (const char* text :
       {"", "3x4", "3x4x5", "3x4x5:f99", "-3x4x5:f32", "3x4x5x6:f32", "ax4x5:f32"})
    EXPECT_THROW(parse_case(text), Error) << text;
}

TEST(Gradient, of_a_rounded_value_is_that_of_the_value) {
  const Program program = Program::parse(
      "coda 1\nprogram p(a: acc, w: T[n]) -> y: T[m, n] {\n  y = tanh(round(a, bf16) * w)\n}\n");
  const std::vector<Row> rows = check_gradient(program, {3, 5, 0, DType::f32, 1}, {});
  ASSERT_EQ(rows.size(), 2u);
  for (const Row& row : rows) EXPECT_TRUE(row.ok && row.ratio < 1e-2) << row.output << row.message;
}

TEST(Gradient, a_derivative_that_is_slightly_off_is_found) {
  const auto program = [](const char* slope) {
    return Program::parse(
        "coda 1\nprogram p(a: acc, w: T[n]) -> y: T[m, n] {\n  y = tanh(a * w) * " +
        std::string(slope) + "\n}\n");
  };
  const Case c{3, 5, 0, DType::f32, 1};
  for (const Row& row : check_gradient(program("1.00001"), differentiate(program("1.0")), c, {}))
    EXPECT_FALSE(row.ok) << row.output;
  for (const Row& row : check_gradient(program("1.0"), differentiate(program("1.0")), c, {}))
    EXPECT_TRUE(row.ok) << row.message;
}

TEST(Gradient, of_an_extremum_is_drawn_away_from_ties) {
  const Program program = Program::parse(
      "coda 1\nprogram p(a: acc) -> top: f32[m], y: T[m, n] {\n  top = max[m](a)\n  y = max(a, "
      "0)\n}\n");
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const Row& row : check_gradient(program, {4, 24, 0, DType::f32, seed}, {}))
      EXPECT_TRUE(row.ok && row.message.empty()) << row.output << row.message;
}

TEST(Shrink, a_failure_becomes_the_operation_that_fails) {
  const Program program = Program::parse(kNorm);
  const auto fails = [](const ir::Program& p, const Case& c) {
    for (const ir::Node& node : p.nodes)
      if (const auto* e = std::get_if<ir::Elementwise>(&node);
          e && e->op == ir::Op::cos && c.m >= 2)
        return true;
    return false;
  };
  const Failure small = shrink({program.ir(), {33, 96, 40, DType::bf16, 4}}, fails);
  EXPECT_LE(small.program.nodes.size(), 4u) << dump(small.program);
  EXPECT_EQ(small.program.outputs.size(), 1u);
  EXPECT_EQ(small.c.m, 2);
  EXPECT_EQ(small.c.k, 0);

  const Regression again = parse_regression(regression_text(small, {{"dh", 8}}), "small.coda");
  EXPECT_EQ(language::print(again.program), language::print(small.program));
  EXPECT_EQ(to_string(again.c), to_string(small.c));
  EXPECT_EQ(again.c.seed, 4u);
  EXPECT_EQ(again.sizes.at("dh"), 8);
}

/// Programs that once failed, made small.
TEST(Regressions, every_kept_program_passes) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(CODA_SOURCE_DIR "/tests/regressions")) {
    if (entry.path().extension() != ".coda") continue;
    ++count;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const Regression kept = parse_regression(text.str(), entry.path().string());
    Options options;
    options.sizes = kept.sizes;
    for (const Row& row : check_case(wrap(kept.program), kept.c, options))
      EXPECT_TRUE(row.ok) << entry.path() << ": " << row.what << " " << row.output << ": "
                          << row.message;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace coda::check

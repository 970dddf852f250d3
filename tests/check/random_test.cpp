// SPDX-License-Identifier: Apache-2.0
// Random programs: the CPU, fused and unfused, against float64; derivatives against finite
// differences. A failure is made small and printed as a file to keep in tests/regressions.
#include <coda/error.h>
#include <gtest/gtest.h>

#include "check/check.h"
#include "check/generate.h"
#include "check/shrink.h"
#include "check_support.h"

namespace coda::check {
namespace {

/// The failing rows of a case; `gradient`: of its derivative, otherwise of its runs.
std::vector<Row> failing(const ir::Program& program, const Case& c, bool gradient,
                         int* compared = nullptr) {
  Options options;
  options.run = [&](const Program& p, const CompileOptions& o, const Arguments& a) {
    CompileOptions compile = o;
    compile.threads = 1 + static_cast<int>(c.seed % 3);
    run_on_cpu(p, compile, a);
  };
  std::vector<Row> rows =
      gradient ? check_gradient(wrap(program), c, options) : check_runs(wrap(program), c, options);
  if (compared)
    for (const Row& row : rows) *compared += row.message.empty();
  std::erase_if(rows, [](const Row& row) { return row.ok; });
  return rows;
}

/// What is wrong, and the smallest program found that still fails in the same way.
std::string report(const ir::Program& program, const Case& c, bool gradient) {
  const Row row = failing(program, c, gradient).at(0);
  const Failure small = shrink({program, c}, [&](const ir::Program& p, const Case& smaller) {
    return !failing(p, smaller, gradient).empty();
  });
  const Row after = failing(small.program, small.c, gradient).at(0);
  return row.what + " " + row.output + " " + to_string(c) + ": " + row.message +
         "\nmade small: " + after.message + "\n" + regression_text(small, after.sizes);
}

TEST(RandomPrograms, the_cpu_agrees_with_float64_fused_and_unfused) {
  int compared = 0;
  const uint64_t count = seeds(400, 2000);
  for (uint64_t seed = 0; seed < count; ++seed) {
    const ir::Program program = random_program(seed);
    const Case c = random_case(program, seed);
    if (!failing(program, c, false, &compared).empty())
      ADD_FAILURE() << "seed " << seed << ": " << report(program, c, false);
  }
  EXPECT_EQ(compared, 2 * count);
}

TEST(RandomPrograms, derivatives_agree_with_finite_differences) {
  int compared = 0;
  const uint64_t count = seeds(400, 2000);
  for (uint64_t seed = 0; seed < count; ++seed) {
    const ir::Program program = random_program(seed);
    Case c = random_case(program, seed);
    c.m = 1 + static_cast<int64_t>(seed % 3), c.type = DType::f32;
    if (c.n > 48) c.n = column_unit(program, draw_sizes(program, {}, 5, seed));
    if (!failing(program, c, true, &compared).empty())
      ADD_FAILURE() << "seed " << seed << ": " << report(program, c, true);
  }
  EXPECT_GT(compared, count / 2);  // the rest has no derivative, or lies at a kink
}

}  // namespace
}  // namespace coda::check

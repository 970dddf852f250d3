// SPDX-License-Identifier: Apache-2.0
// Programs as ports and steps of the epilogue driver.
#include "cuda/lower/fused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/lower/split.h"
#include "cuda_lower/parse.h"

namespace coda::cuda {
namespace {

using device::Kind;
using device::Width;
using test::parse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Kind> kinds(const std::vector<FusedPort>& ports) {
  std::vector<Kind> result;
  for (const FusedPort& port : ports) result.push_back(port.port.kind);
  return result;
}

/// "load 0", "loop 3", "call", "result 2": a step with its port or its number of values.
std::vector<std::string> steps(const FusedPass& pass) {
  static constexpr const char* kNames[] = {"load", "loop", "call", "result"};
  std::vector<std::string> result;
  for (const FusedStep& step : pass.steps) {
    const bool loop = step.kind == FusedStep::Kind::loop;
    const int number = loop ? static_cast<int>(step.values.size()) : step.port;
    result.push_back(std::string(kNames[static_cast<int>(step.kind)]) +
                     (number < 0 ? "" : " " + std::to_string(number)));
  }
  return result;
}

size_t count_arrays(const FusedPass& pass) {
  return std::count(pass.arrays.begin(), pass.arrays.end(), true);
}

TEST(LowerFused, values_of_one_size_share_a_loop_and_those_per_row_come_first) {
  const Instance instance = parse(
      "program p(a: acc, b: T[n], r: f32[m]) -> y: T[m, n] { y = (a + b) * (r + 1) - (r + 2) }");
  const LoweredFused lowered = lower_fused(instance, false);
  EXPECT_THAT(kinds(lowered.ports),
              ElementsAre(Kind::row_vector, Kind::col_vector, Kind::tile_out));
  ASSERT_EQ(lowered.passes.size(), 1u);
  // The constants, r + 1 and r + 2, then the tile.
  EXPECT_THAT(steps(lowered.passes[0]),
              ElementsAre("load 0", "load 1", "loop 2", "loop 2", "loop 3", "result 2"));
  // The two constants, a, b, r, r + 1, r + 2 and what is stored: a + b and the product are
  // variables.
  EXPECT_EQ(count_arrays(lowered.passes[0]), 8u);
}

TEST(LowerFused, a_pair_ends_a_loop_and_sets_the_strip) {
  const Instance instance =
      parse("program p(a: acc) -> y: T[m, n/2] { u, v = split(a * 2, 16)\n y = u * v }");
  const LoweredFused lowered = lower_fused(instance, true);
  EXPECT_EQ(lowered.pair, 16) << "a choice of narrow strips is for programs without pairs";
  EXPECT_EQ(chunk_multiple(instance), 32);
  EXPECT_EQ(lowered.ports[0].port.width, Width::half);
  EXPECT_THAT(steps(lowered.passes[0]),
              ElementsAre("loop 1", "loop 1", "call", "call", "loop 1", "result 0"));
}

TEST(LowerFused, narrow_strips_have_half_the_elements) {
  const Instance instance = parse("program p(a: acc) -> y: T[m, n] { y = -a }");
  const LoweredFused wide = lower_fused(instance, false), narrow = lower_fused(instance, true);
  const ir::ValueId result = wide.result_of(0);
  EXPECT_EQ(wide.elements(result), 8);
  EXPECT_EQ(narrow.elements(result), 4);
  EXPECT_EQ(narrow.pair, device::kNarrow);
}

TEST(LowerFused, reductions_that_need_one_state_share_a_port) {
  const Instance instance = parse(
      "program p(a: acc) -> s: f32[m], u: f32[m], t: f32[m], c: f32[n] {\n"
      "  s = sum[m](a)\n  u = mean[m](a)\n  t = max[m](a)\n  c = sum[n](a) }");
  const LoweredFused lowered = lower_fused(instance, false);
  EXPECT_THAT(kinds(lowered.ports), ElementsAre(Kind::keep_m, Kind::keep_m, Kind::keep_n));
  ASSERT_EQ(lowered.partials.size(), 4u);
  EXPECT_EQ(lowered.partials[0].array, lowered.partials[1].array);
  EXPECT_EQ(lowered.partials[2].array, 1);
  EXPECT_EQ(lowered.partials[3].array, 2);
}

TEST(LowerFused, groups_are_folded_in_a_pass_of_their_own) {
  const Instance instance = parse(
      "program p(a: acc) -> q: T[m, n], s: f32[m, n:32] {\n"
      "  s = max[m, n:32](abs(a))\n  q = a / s }");
  const LoweredFused lowered = lower_fused(instance, false);
  EXPECT_EQ(chunk_multiple(instance), 32);
  EXPECT_THAT(kinds(lowered.ports), ElementsAre(Kind::group_fold, Kind::tile_out, Kind::group_out));
  ASSERT_EQ(lowered.passes.size(), 2u);
  EXPECT_THAT(steps(lowered.passes[0]), ElementsAre("loop 1", "result 0"));
  EXPECT_THAT(steps(lowered.passes[1]), ElementsAre("call 0", "loop 1", "result 1", "result 2"));
}

TEST(LowerFused, what_does_not_fit_is_named) {
  EXPECT_THAT(*fused_problem(parse("program p(x: T[m, n]) -> y: T[m, n] { y = -x }")),
              HasSubstr("no accumulator"));
  EXPECT_THAT(*fused_problem(
                  parse("program p(a: acc) -> y: T[m, n/2] { u, v = split(a, 12)\n y = u * v }")),
              HasSubstr("pairs at offset 12"));
  EXPECT_THAT(*fused_problem(parse("program p(a: acc, x: i32[m, n]) -> y: T[m, n] { y = a + x }")),
              HasSubstr("input 'x'"));
  EXPECT_EQ(fused_problem(parse("program p(a: acc) -> y: T[m, n] { y = -a }")), std::nullopt);
}

TEST(LowerSplit, takes_a_product_and_a_product_added_to_a_tile) {
  EXPECT_EQ(split_form(parse("program p(a: acc) -> y: f32[m, n] { y = a }"))->addend, -1);
  EXPECT_EQ(split_form(parse("program p(a: acc, x: T[m, n]) -> y: T[m, n] { y = x + a }"))->addend,
            1);
  EXPECT_FALSE(split_form(parse("program p(a: acc, x: T[m, n]) -> y: T[m, n] { y = x * a }")));
  EXPECT_FALSE(split_form(parse("program p(a: acc, x: T[n]) -> y: T[m, n] { y = x + a }")));
  const LoweredFused ranges =
      lower_fused(split_product(parse("program p(a: acc) -> y: T[m, n] { y = a }")), false);
  ASSERT_EQ(ranges.ports.size(), 1u);
  EXPECT_EQ(ranges.ports[0].port.kind, split_port().kind);
  EXPECT_EQ(ranges.ports[0].port.type, split_port().type);
}

}  // namespace
}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Programs as passes of stand-alone kernels.
#include "cuda/lower/pointwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/lower/fused.h"
#include "cuda_lower/parse.h"

namespace coda::cuda {
namespace {

using Pass = PointwisePass;
using Rows = PointwiseWork::Rows;
using test::parse;
using ::testing::ElementsAre;

std::vector<Pass::Kind> kinds(const LoweredPointwise& lowered) {
  std::vector<Pass::Kind> result;
  for (const Pass& pass : lowered.passes) result.push_back(pass.kind);
  return result;
}

TEST(LowerPointwise, rows_and_columns_are_reduced_one_after_the_other) {
  const LoweredPointwise lowered =
      lower_pointwise(parse("program p(x: T[m, n]) -> s: f32[] { s = sum[](x) }"), "k");
  EXPECT_THAT(kinds(lowered),
              ElementsAre(Pass::Kind::reduce, Pass::Kind::join, Pass::Kind::elements));
  const Pass& reduce = lowered.passes[0];
  EXPECT_TRUE(reduce.warp_per_item && !reduce.row_chunks && reduce.walk == Walk::all);
  EXPECT_EQ(lowered.work[reduce.states].rows, Rows::matrix);
  EXPECT_EQ(lowered.passes[1].states, reduce.states);
  EXPECT_EQ(lowered.passes[1].results, reduce.results);
  EXPECT_EQ(lowered.passes[2].kernel, "k_2");
}

TEST(LowerPointwise, rows_alone_are_reduced_by_a_thread_a_chunk) {
  const LoweredPointwise lowered =
      lower_pointwise(parse("program p(x: T[m, n]) -> c: f32[n] { c = sum[n](x) }"), "k");
  const Pass& reduce = lowered.passes[0];
  EXPECT_TRUE(!reduce.warp_per_item && reduce.row_chunks && reduce.walk == Walk::one);
  EXPECT_EQ(lowered.work[reduce.states].rows, Rows::chunks);
  EXPECT_EQ(lowered.work[reduce.states].element, 8);  // a sum with what it lost
}

TEST(LowerPointwise, columns_alone_need_no_states) {
  const LoweredPointwise lowered =
      lower_pointwise(parse("program p(x: T[m, n]) -> s: f32[m], g: f32[m, n:32] { s = max[m](x)\n"
                            "  g = sum[m, n:32](x) }"),
                      "k");
  EXPECT_THAT(kinds(lowered), ElementsAre(Pass::Kind::reduce, Pass::Kind::reduce,
                                          Pass::Kind::elements, Pass::Kind::elements));
  EXPECT_EQ(lowered.passes[0].walk, Walk::all);
  EXPECT_EQ(lowered.passes[1].walk, Walk::group);
  EXPECT_EQ(lowered.passes[0].states, -1);
}

TEST(LowerPointwise, outputs_over_one_extent_share_a_pass) {
  const LoweredPointwise lowered =
      lower_pointwise(parse("program p(x: T[m, n]) -> y: T[m, n], r: f32[n], z: f32[m, n] {\n"
                            "  y = -x\n  r = n * 2\n  z = x * x }"),
                      "k");
  ASSERT_EQ(lowered.passes.size(), 2u);
  EXPECT_THAT(lowered.passes[0].outputs, ElementsAre(0, 2));
  EXPECT_THAT(lowered.passes[1].outputs, ElementsAre(1));
}

TEST(LowerPointwise, tiles_are_joined_by_the_reader_where_there_is_one_for_each_row_or_column) {
  const Instance instance = parse(
      "program p(a: acc) -> y: T[m, n], s: f32[m], c: f32[n], all: f32[] {\n"
      "  y = a\n  s = sum[m](a)\n  c = max[n](a)\n  all = max[](a) }");
  const std::vector<TilePartial> partials = lower_fused(instance, false).partials;
  ASSERT_EQ(partials.size(), 3u);
  const LoweredPointwise lowered = lower_finish(instance, "k", partials);
  EXPECT_TRUE(lowered.joined_by_reader[partials[0].reduction]);
  EXPECT_TRUE(lowered.joined_by_reader[partials[1].reduction]);
  EXPECT_FALSE(lowered.joined_by_reader[partials[2].reduction]);
  EXPECT_THAT(kinds(lowered), ElementsAre(Pass::Kind::tiles, Pass::Kind::elements,
                                          Pass::Kind::elements, Pass::Kind::elements));
  EXPECT_EQ(lowered.work[partials[0].array].rows, Rows::tiles_n);
  EXPECT_EQ(lowered.work[partials[1].array].rows, Rows::tiles_m);
  for (const Pass& pass : lowered.passes)
    EXPECT_THAT(pass.outputs, ::testing::Not(::testing::Contains(0))) << "y is stored by the tile";
}

TEST(LowerPointwise, nothing_is_left_where_all_outputs_are_stored_in_the_tile) {
  const Instance instance = parse("program p(a: acc) -> y: T[m, n] { y = -a }");
  EXPECT_TRUE(lower_finish(instance, "k", {}).passes.empty());
}

}  // namespace
}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// The rows that are timed: which there are, of which class, and that the mainloop takes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cuda/check/bench.h"

namespace coda::cuda {
namespace {

BoundCall call_of(const BenchRow& row) {
  Arena nowhere(nullptr, 0);
  return make_call(nowhere, row.instance, row.size);
}

const BenchRow& row_named(const std::vector<BenchRow>& rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const BenchRow& row) { return row.name == name; });
  if (found == rows.end()) throw std::runtime_error("no row " + name);
  return *found;
}

/// "" where the mainloop takes the call in some configuration.
std::string refusal(const BenchRow& row) {
  const auto accepted = mainloop_call(row, kHopperProcessors);
  if (const auto* why = std::get_if<std::string>(&accepted)) return *why;
  const ProgramShape shape = program_shape(row.instance, fused_ports(row.instance));
  std::string why;
  const auto all = candidates(shape, std::get<FusedCall>(accepted).problem, {}, &why);
  return all.empty() ? why : "";
}

TEST(Suite, has_every_row_once_and_the_mainloop_takes_all_with_a_product) {
  std::set<std::string> names;
  std::map<RowClass, int> classes;
  for (const BenchRow& row : kernel_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    ++classes[row.row_class];
    if (row.row_class == RowClass::pass) continue;
    EXPECT_EQ(refusal(row), "") << row.name;
  }
  EXPECT_EQ(classes[RowClass::product], 25);  // 24 and a small one
  EXPECT_GE(classes[RowClass::fused], 40);
  EXPECT_GE(classes[RowClass::streaming], 8);
  EXPECT_GE(classes[RowClass::pass], 5);
}

TEST(Suite, tells_rows_whose_bytes_show) {
  const std::vector<BenchRow> rows = kernel_rows();
  const auto class_named = [&](const std::string& name) { return row_named(rows, name).row_class; };
  EXPECT_EQ(class_named("gemm wgrad gate_up 4096"), RowClass::product);
  EXPECT_EQ(class_named("residual_rms out 2048"), RowClass::streaming);
  EXPECT_EQ(class_named("residual_rms down 2048"), RowClass::fused);
  EXPECT_EQ(class_named("residual_rms out 4096"), RowClass::fused);
  EXPECT_EQ(class_named("rmsnorm_rope 2048"), RowClass::fused);
  EXPECT_EQ(class_named("rmsnorm_rope bwd 2048"), RowClass::pass);
  EXPECT_EQ(bound_of(RowClass::streaming), 1.06);
  EXPECT_EQ(bound_of(RowClass::pass), 0);
}

TEST(Suite, of_generated_programs_is_five_that_the_mainloop_takes) {
  const std::vector<BenchRow> rows = generated_rows();
  ASSERT_EQ(rows.size(), 5u);
  for (const BenchRow& row : rows) {
    EXPECT_EQ(refusal(row), "") << row.name;
    EXPECT_EQ(row.row_class, RowClass::generated);
    EXPECT_GE(row.size.n, 4096);
  }
}

TEST(Suite, counts_the_bytes_of_shared_operands_once) {
  const std::vector<BenchRow> rows = kernel_rows();
  const int64_t m = 16384, d = 2048, f = 5632;
  EXPECT_EQ(bytes_of(call_of(row_named(rows, "gemm fwd out 2048"))), 2 * (m * d + d * d + m * d));
  EXPECT_EQ(bytes_of(call_of(row_named(rows, "rmsnorm_swiglu 2048"))),
            2 * (m * d + 2 * f * d + 3 * m * f) + 4 * m);
  EXPECT_EQ(bytes_of(call_of(row_named(rows, "accumulate wgrad 2048"))),
            2 * (m * d + m * f) + 4 * 2 * d * f);
}

}  // namespace
}  // namespace coda::cuda

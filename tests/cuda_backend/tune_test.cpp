// SPDX-License-Identifier: Apache-2.0
// Which configurations are tried, and which outputs count as the same: what a GPU is not needed
// for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/convert.h"
#include "cuda/check/tune.h"

namespace coda::cuda {
namespace {

using ::testing::HasSubstr;

/// A matrix of N(0, 1) and its memory.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, DType type)
      : rows(rows),
        columns(columns),
        type(type),
        bytes(static_cast<size_t>(rows * columns) * size_of(type)) {
    check::Random random(3);
    for (int64_t i = 0; i < rows * columns; ++i)
      if (is_float(type))
        store_element(at(i), type, check::draw_real(check::Source::normal, random));
      else
        store_integer(at(i), type, random.below(100));
  }
  std::byte* at(int64_t index) { return bytes.data() + static_cast<size_t>(index) * size_of(type); }
  double value(int64_t index) { return load_element(at(index), type); }
  void set(int64_t index, double x) { store_element(at(index), type, x); }
  HostMatrix view() const { return {bytes, rows, columns, type}; }

  int64_t rows, columns;
  DType type;
  std::vector<std::byte> bytes;
};

TEST(Difference, is_none_between_equal_matrices_and_those_rounded_otherwise) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::i32}) {
    const Matrix matrix(333, 200, type);
    EXPECT_EQ(difference(matrix.view(), matrix.view()), "") << name_of(type);
  }
  const Matrix expected(64, 128, DType::bf16);
  Matrix other = expected;
  for (int64_t i = 0; i < 64 * 128; i += 3) other.set(i, other.value(i) * (1 + 0x1p-7));
  EXPECT_EQ(difference(expected.view(), other.view()), "");
}

TEST(Difference, finds_one_wrong_element) {
  for (const DType type : {DType::f32, DType::bf16, DType::e4m3, DType::i32}) {
    const Matrix expected(1100, 200, type);
    Matrix wrong = expected;
    const int64_t index = 1099 * 200 + 199;
    wrong.set(index, wrong.value(index) + 3);
    const std::string where = difference(expected.view(), wrong.view());
    EXPECT_THAT(where, HasSubstr("row 1099, column 199")) << name_of(type);
  }
}

TEST(Difference, is_measured_beside_the_block_and_not_beside_the_matrix) {
  Matrix expected(32, 64, DType::f32);
  for (int64_t i = 0; i < 16 * 64; ++i) expected.set(i, expected.value(i) * 1e-6);
  Matrix wrong = expected;
  wrong.set(5 * 64 + 7, wrong.value(5 * 64 + 7) + 1e-6);
  EXPECT_THAT(difference(expected.view(), wrong.view()), HasSubstr("row 5, column 7"));
}

TEST(Difference, finds_blocks_that_changed_places_or_were_never_written) {
  const Matrix expected(64, 256, DType::bf16);
  Matrix swapped = expected;
  for (int64_t r = 0; r < 16; ++r)
    for (int64_t c = 0; c < 64; ++c)
      std::swap_ranges(swapped.at(r * 256 + c), swapped.at(r * 256 + c + 1),
                       swapped.at(r * 256 + 64 + c));
  EXPECT_NE(difference(expected.view(), swapped.view()), "");
  Matrix poisoned = expected;
  std::fill(poisoned.at(20 * 256), poisoned.at(20 * 256 + 8), std::byte{0xff});
  EXPECT_THAT(difference(expected.view(), poisoned.view()), HasSubstr("row 20, column 0"));
}

TEST(Difference, takes_infinities_and_nan_as_they_are) {
  Matrix expected(16, 64, DType::f32);
  expected.set(1, HUGE_VAL), expected.set(2, std::nan(""));
  EXPECT_EQ(difference(expected.view(), expected.view()), "");
  Matrix finite = expected;
  finite.set(1, 1e30);
  EXPECT_NE(difference(expected.view(), finite.view()), "");
  Matrix number = expected;
  number.set(2, 0);
  EXPECT_NE(difference(expected.view(), number.view()), "");
  Matrix wrong = expected;  // beside an infinity, too
  wrong.set(3, wrong.value(3) + 3);
  EXPECT_NE(difference(expected.view(), wrong.view()), "");
}

TEST(TuneRows, name_the_best_of_the_model_in_full) {
  const std::vector<BenchRow> all = kernel_rows();
  for (const TuneRow& row : tune_rows(all, 6)) {
    if (row.row->row_class == RowClass::pass) {
      EXPECT_TRUE(row.configs.empty()) << row.row->name;
      EXPECT_EQ(row.why_none, "there is no accumulator") << row.row->name;
      continue;
    }
    EXPECT_GE(row.configs.size(), 2u) << row.row->name;
    EXPECT_LE(row.configs.size(), 6u) << row.row->name;
    EXPECT_EQ(std::set<std::string>(row.configs.begin(), row.configs.end()).size(),
              row.configs.size())
        << row.row->name;
    // A name alone leads back to its configuration.
    const ProgramShape shape = program_shape(row.row->instance, fused_ports(row.row->instance));
    for (const std::string& config : row.configs) {
      const auto named = modelled_candidates(shape, row.call.problem, exact_wish(config));
      ASSERT_EQ(named.size(), 1u) << row.row->name << ": " << config;
      EXPECT_EQ(to_string(named[0].config, named[0].splits), config) << row.row->name;
    }
  }
}

TEST(TuneRows, make_entries_that_stand_for_their_calls) {
  const std::vector<BenchRow> all = kernel_rows();
  for (const TuneRow& row : tune_rows(all, 2)) {
    if (row.configs.empty()) continue;
    TunedEntry entry = row.entry();
    entry.config = row.configs.back(), entry.wish = exact_wish(entry.config);
    const TunedTable table{"NVIDIA H200", kHopperProcessors, {entry}};
    const ProgramShape shape = program_shape(row.row->instance, fused_ports(row.row->instance));
    const Candidate best = candidates(shape, row.call.problem, {}, nullptr, table).at(0);
    EXPECT_TRUE(best.tuned) << row.row->name;
    EXPECT_EQ(to_string(best.config, best.splits), entry.config) << row.row->name;
  }
}

}  // namespace
}  // namespace coda::cuda

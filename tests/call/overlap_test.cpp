// SPDX-License-Identifier: Apache-2.0
// Overlap of strided views against sets of addresses, and the layouts that must not be refused.
#include "call/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace coda {
namespace {

struct Placed {
  View view;
  int64_t rows, columns;
};

Placed at(uintptr_t address, int64_t rows, int64_t columns, int64_t row_stride,
          int64_t column_stride, DType type) {
  return {{reinterpret_cast<std::byte*>(address), row_stride, column_stride, type}, rows, columns};
}

bool overlap(const Placed& a, const Placed& b) {
  return coda::overlap(region_of(a.view, a.rows, a.columns), region_of(b.view, b.rows, b.columns));
}

std::multiset<uintptr_t> addresses(const Placed& placed) {
  std::multiset<uintptr_t> result;
  for (int64_t i = 0; i < placed.rows; ++i)
    for (int64_t j = 0; j < placed.columns; ++j) {
      const int64_t element = i * placed.view.row_stride + j * placed.view.column_stride;
      for (size_t byte = 0; byte < size_of(placed.view.dtype); ++byte)
        result.insert(reinterpret_cast<uintptr_t>(placed.view.data) +
                      static_cast<uintptr_t>(element) * size_of(placed.view.dtype) + byte);
    }
  return result;
}

TEST(Overlap, agrees_with_the_sets_of_addresses_for_small_views) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto place = [&] {
    const DType type = draw(0, 1) ? DType::f32 : DType::u8;
    return at(static_cast<uintptr_t>(1000 + 4 * draw(0, 30)), draw(0, 5), draw(0, 5), draw(0, 13),
              draw(0, 13), type);
  };
  int meet = 0;
  for (int round = 0; round < 20000; ++round) {
    const Placed a = place(), b = place();
    const std::multiset<uintptr_t> of_a = addresses(a), of_b = addresses(b);
    const bool shared =
        std::any_of(of_a.begin(), of_a.end(), [&](uintptr_t x) { return of_b.contains(x); });
    meet += shared;
    ASSERT_EQ(overlap(a, b), shared) << "round " << round;
    ASSERT_EQ(overlap(b, a), shared) << "round " << round;
    const bool repeated = std::set<uintptr_t>(of_a.begin(), of_a.end()).size() != of_a.size();
    ASSERT_EQ(overlaps_itself(a.view, a.rows, a.columns), repeated) << "round " << round;
  }
  EXPECT_GT(meet, 1000);
  EXPECT_LT(meet, 19000);
}

constexpr int64_t kRows = 100000, kPitch = 8192;
constexpr uintptr_t kBase = 1 << 20;

TEST(Overlap, column_slices_of_one_packed_matrix_do_not_meet) {
  const Placed left = at(kBase, kRows, 4096, kPitch, 1, DType::bf16);
  const Placed right = at(kBase + 2 * 4096, kRows, 4096, kPitch, 1, DType::bf16);
  EXPECT_FALSE(overlap(left, right));
  EXPECT_TRUE(overlap(left, at(kBase + 2 * 4095, kRows, 4096, kPitch, 1, DType::bf16)));
}

TEST(Overlap, even_and_odd_columns_do_not_meet) {
  EXPECT_FALSE(overlap(at(kBase, kRows, 4096, kPitch, 2, DType::bf16),
                       at(kBase + 2, kRows, 4096, kPitch, 2, DType::bf16)));
}

TEST(Overlap, even_rows_and_a_slice_of_odd_rows_do_not_meet) {
  EXPECT_FALSE(overlap(at(kBase, kRows, 8192, 2 * kPitch, 1, DType::bf16),
                       at(kBase + 2 * kPitch, kRows, 100, 2 * kPitch, 1, DType::bf16)));
}

TEST(Overlap, a_slice_of_every_second_row_beside_a_slice_of_all_rows_does_not_meet) {
  EXPECT_FALSE(overlap(at(kBase, kRows, 100, 2 * kPitch, 1, DType::bf16),
                       at(kBase + 200, kRows, 100, kPitch, 1, DType::bf16)));
}

TEST(Overlap, a_vector_in_the_padding_of_a_matrix_does_not_meet_it) {
  const Placed matrix = at(kBase, kRows, 8000, kPitch, 1, DType::bf16);
  EXPECT_FALSE(overlap(matrix, at(kBase + 2 * 8000, kRows, 1, kPitch / 2, 1, DType::f32)));
  EXPECT_FALSE(overlap(matrix, at(kBase + 2 * 8000, 1, 96, 0, 1, DType::f32)));
  EXPECT_TRUE(overlap(matrix, at(kBase + 2 * 8000, 1, 97, 0, 1, DType::f32)));
}

TEST(Overlap, a_slice_and_the_transpose_of_its_neighbour_do_not_meet) {
  EXPECT_FALSE(overlap(at(kBase, kRows, 4096, kPitch, 1, DType::bf16),
                       at(kBase + 2 * 4096, 4096, kRows, 1, kPitch, DType::bf16)));
}

TEST(Overlap, empty_views_meet_nothing) {
  const Placed whole = at(kBase, 4, 4, 4, 1, DType::f32);
  EXPECT_FALSE(overlap(whole, at(kBase, 0, 4, 4, 1, DType::f32)));
  EXPECT_FALSE(overlap(at(kBase, 4, 0, 4, 1, DType::f32), whole));
}

TEST(Overlap, addresses_near_the_end_of_memory_do_not_wrap) {
  const Placed high = at(~uintptr_t{0} - 1023, 1, 255, 0, 1, DType::f32);
  EXPECT_FALSE(overlap(high, at(4, 1, 255, 0, 1, DType::f32)));
  EXPECT_TRUE(overlap(high, high));
}

}  // namespace
}  // namespace coda

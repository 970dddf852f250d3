// SPDX-License-Identifier: Apache-2.0
// The sizes and the type that compile() fixes, and labels.
#include <coda/error.h>
#include <gtest/gtest.h>

#include "call/call.h"

namespace coda {
namespace {

constexpr const char* kText = R"(coda 1
program heads<dh, nq, part>(a: acc, w: T[n % dh]) -> y: T[m, n] {
  x, z = split(swap(a * w, part/2, dh), dh/2)
  y = where(n < nq*dh, join(z, x, dh/2), a)
}
)";

std::string refusal(std::initializer_list<SizeValue> sizes, DType type = DType::bf16) {
  const Program program = Program::parse(kText);
  try {
    instantiate({std::shared_ptr<const void>(), &program.ir()},
                {.type = type, .sizes = {sizes.begin(), sizes.size()}});
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Instantiate, takes_every_size_once) {
  EXPECT_EQ(refusal({{"dh", 8}, {"nq", 2}, {"part", 4}}), "accepted");
  EXPECT_EQ(refusal({{"part", 8}, {"dh", 8}, {"nq", 0}}),
            "accepted");  // no group or half depends on nq
  EXPECT_EQ(refusal({{"dh", 8}, {"nq", 2}}),
            "[heads] size 'part': expected a value, got none; fix: add {\"part\", ...} to "
            "CompileOptions::sizes");
  EXPECT_EQ(refusal({{"dh", 8}, {"nq", 2}, {"part", 4}, {"dh", 8}}),
            "[heads] size 'dh': expected one value, got two; fix: give each size once");
  EXPECT_EQ(
      refusal({{"dh", 8}, {"nq", 2}, {"prt", 4}}),
      "[heads] size 'prt': expected a size parameter of the program, got an unknown name; fix: "
      "did you mean 'part'?");
}

TEST(Instantiate, refuses_sizes_that_make_no_group_or_half) {
  EXPECT_EQ(
      refusal({{"dh", 7}, {"nq", 2}, {"part", 4}}),
      "[heads] split(..., dh/2): expected a size that divides exactly, got 7 / 2; fix: choose "
      "sizes for which the division has no remainder");
  EXPECT_EQ(
      refusal({{"dh", 8}, {"nq", 2}, {"part", 0}}),
      "[heads] swap(..., part/2, dh): expected part/2 above 0, got 0; fix: give sizes of at least "
      "one column");
  EXPECT_EQ(refusal({{"dh", 0}, {"nq", 2}, {"part", 4}}),
            "[heads] [n % dh]: expected dh above 0, got 0; fix: give sizes of at least one column");
  EXPECT_EQ(
      refusal({{"dh", 8}, {"nq", 2}, {"part", 10}}),
      "[heads] swap(..., part/2, dh): expected two halves that fit into a group of 8, got halves "
      "of 5; fix: choose a half of at most half the group");
  EXPECT_EQ(
      refusal({{"dh", 8}, {"nq", -1}, {"part", 4}}),
      "[heads] size 'nq': expected a value of at least 0, got -1; fix: give the size in columns "
      "or elements");
}

TEST(Instantiate, takes_f32_bf16_and_f16_as_t) {
  for (DType type : all_dtypes) {
    const bool good = type == DType::f32 || type == DType::bf16 || type == DType::f16;
    EXPECT_EQ(refusal({{"dh", 8}, {"nq", 2}, {"part", 4}}, type) == "accepted", good)
        << name_of(type);
  }
  EXPECT_EQ(
      refusal({}, DType::e4m3),
      "[heads]: expected f32, bf16 or f16 as T, got e4m3; fix: choose CompileOptions::type among "
      "them");
}

TEST(Labels, outside_the_columns_are_found_with_row_and_value) {
  const int64_t labels[] = {0, 15, -100, 23, 16};
  const auto check = [&](int64_t count, int64_t n, std::optional<int64_t> ignored) -> std::string {
    try {
      check_labels(vector_view(labels, count, DType::i64), n, ignored);
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::argument);
      return error.what();
    }
  };
  EXPECT_EQ(check(5, 24, -100), "accepted");
  EXPECT_EQ(check(2, 16, {}), "accepted");
  EXPECT_EQ(
      check(5, 16, -100),
      "check_labels: expected labels from 0 to 15, or -100, got 23 in row 3; fix: correct the "
      "label, or mark the row ignored");
  EXPECT_EQ(
      check(5, 24, {}),
      "check_labels: expected labels from 0 to 23, got -100 in row 2; fix: correct the label, or "
      "mark the row ignored");
}

TEST(Labels, are_read_with_their_stride_and_type) {
  const int32_t labels[] = {1, 99, 2, 99, 3};
  TensorView view = vector_view(labels, 3, DType::i32);
  view.strides[0] = 2;
  EXPECT_NO_THROW(check_labels(view, 4));
  EXPECT_THROW(check_labels(view, 3), Error);
  EXPECT_THROW(check_labels(vector_view(labels, 3, DType::f32), 4), Error);
  EXPECT_THROW(check_labels(vector_view(labels, 3, DType::i32, {Device::Kind::cuda, 0}), 4), Error);
}

}  // namespace
}  // namespace coda

// SPDX-License-Identifier: Apache-2.0
// Which calls the mainloop takes, and what is said about the others. Nothing is compiled.
#include <gtest/gtest.h>

#include "call/call.h"
#include "check/programs.h"
#include "cuda/backend/fused.h"
#include "language/parser.h"

namespace coda::cuda {
namespace {

const Device kGpu{Device::Kind::cuda, 0};
constexpr int64_t kM = 256, kN = 512, kK = 192;

std::byte* at(int64_t byte) { return reinterpret_cast<std::byte*>(int64_t{1} << 32) + byte; }

TensorView matrix(int tensor, int64_t rows, int64_t columns, int64_t pitch = 0,
                  DType type = DType::bf16) {
  return matrix_view(at(int64_t{tensor} << 28), rows, columns, type, pitch, kGpu);
}

class Accept : public testing::Test {
 protected:
  void use(const std::string& text) {
    const auto programs = language::parse_file("coda 1\n" + text, "test.coda");
    instance_ = check::instance_of(programs.at(0), DType::bf16);
    ASSERT_EQ(fused_problem(instance_), std::nullopt);
    fused_ = std::make_unique<Fused90>(instance_, ConfigWish{}, nullptr, 132);
  }
  /// "" where the call is accepted.
  std::string reason(const Arguments& arguments) {
    const auto result = fused_->accept(bind(instance_, arguments, kGpu));
    if (const auto* why = std::get_if<std::string>(&result)) return *why;
    call_ = std::get<FusedCall>(result);
    return "";
  }
  static Arguments linear(TensorView a, TensorView b, TensorView y) {
    Arguments result;
    result.product("a", a, b).tensor("y", y);
    return result;
  }

  Instance instance_;
  std::unique_ptr<Fused90> fused_;
  FusedCall call_;
};

class Linear : public Accept {
 protected:
  void SetUp() override { use("program linear(a: acc) -> y: T[m, n] { y = a }"); }
  TensorView a_ = matrix(0, kM, kK), b_ = matrix(1, kN, kK), y_ = matrix(2, kM, kN);
};

TEST_F(Linear, a_row_of_an_output_ends_where_a_unit_of_the_copy_engine_ends) {
  EXPECT_EQ(reason(linear(a_, matrix(1, 132, kK), matrix(2, kM, 132, 136))),
            "output 'y' has rows of 264 bytes, no multiple of 16");
}

TEST_F(Linear, operands_along_k_or_turned_are_taken) {
  EXPECT_EQ(reason(linear(a_, b_, y_)), "");
  EXPECT_EQ(call_.problem.a_major, device::Major::k);
  EXPECT_EQ(reason(linear(a_, transposed(matrix(1, kK, kN)), y_)), "");
  EXPECT_EQ(call_.problem.b_major, device::Major::mn);
  EXPECT_EQ(reason(linear(transposed(matrix(0, kK, kM)), b_, y_)), "");
  EXPECT_EQ(call_.problem.a_major, device::Major::mn);
}

TEST_F(Linear, what_tma_cannot_read_is_named) {
  TensorView shifted = a_;
  shifted.data = static_cast<std::byte*>(a_.data) + 2;
  EXPECT_EQ(reason(linear(shifted, b_, y_)), "operand A of 'a' starts at no multiple of 16 bytes");
  EXPECT_EQ(reason(linear(a_, matrix(1, kN, kK, kK + 4), y_)),
            "operand B of 'a' has rows 392 bytes apart, no multiple of 16");
  EXPECT_EQ(reason(linear(a_, b_, transposed(matrix(2, kN, kM)))),
            "output 'y' has no contiguous rows");
  TensorView repeated = a_;
  repeated.strides[0] = 0;
  EXPECT_EQ(reason(linear(repeated, b_, y_)), "operand A of 'a' has rows that overlap");
  const TensorView f32_a = matrix(0, kM, kK, 0, DType::f32);
  EXPECT_EQ(reason(linear(f32_a, matrix(1, kN, kK, 0, DType::f32), y_)), "operands are f32");
}

TEST_F(Linear, empty_matrices_and_sums_of_nothing_run_unfused) {
  EXPECT_EQ(reason(linear(matrix(0, kM, 0), matrix(1, kN, 0), y_)), "K is 0");
  EXPECT_EQ(reason(linear(matrix(0, 0, kK), b_, matrix(2, 0, kN))), "an empty matrix");
}

TEST_F(Linear, a_single_row_has_no_pitch) {
  EXPECT_EQ(reason(linear(matrix(0, 1, kK, kK + 1), b_, matrix(2, 1, kN, kN + 3))), "");
}

TEST_F(Linear, a_sum_of_products_has_one_layout_and_at_most_four_terms) {
  Arguments sum = linear(a_, b_, y_);
  sum.product("a", matrix(3, kM, 0), matrix(4, kN, 0));  // adds nothing
  sum.product("a", matrix(5, kM, 40), matrix(6, kN, 40));
  EXPECT_EQ(reason(sum), "");
  EXPECT_EQ(call_.problem.depths, (std::vector<int64_t>{kK, 40}));
  EXPECT_EQ(call_.products, (std::vector<size_t>{0, 2}));
  Arguments mixed = linear(a_, b_, y_);
  mixed.product("a", transposed(matrix(5, 40, kM)), matrix(6, kN, 40));
  EXPECT_EQ(reason(mixed), "products of layouts that differ");
  for (int i = 0; i < 3; ++i) sum.product("a", matrix(5, kM, 40), matrix(6, kN, 40));
  EXPECT_EQ(reason(sum), "5 products in one sum (at most 4 fit)");
}

TEST_F(Linear, weights_and_outputs_side_by_side_share_their_seams) {
  const TensorView weights[] = {matrix(1, 256, kK), matrix(3, 128, kK), matrix(4, 128, kK)};
  Arguments parts;
  parts.product("a", a_, weights).tensor("y", y_);
  EXPECT_EQ(reason(parts), "");
  EXPECT_EQ(call_.problem.b_seams, (std::vector<int64_t>{256, 384}));
  EXPECT_FALSE(call_.problem.tiles_cut_n);
  const TensorView outputs[] = {matrix(2, kM, 64), matrix(5, kM, kN - 64)};
  parts.tensor("y", Axis::columns, outputs);
  EXPECT_EQ(reason(parts), "");
  EXPECT_EQ(call_.problem.b_seams, (std::vector<int64_t>{64, 256, 384}));
  EXPECT_TRUE(call_.problem.tiles_cut_n);
  const TensorView rows[] = {matrix(2, 64, kN), matrix(5, kM - 64, kN)};
  parts.tensor("y", Axis::rows, rows);
  EXPECT_EQ(reason(parts), "");
  EXPECT_EQ(call_.problem.a_seams, (std::vector<int64_t>{64}));
  EXPECT_EQ(call_.seams[0], device::Seams::rows);
}

TEST_F(Accept, two_accumulators_share_one_operand_a) {
  use("program gated(g: acc, u: acc) -> y: T[m, n] { y = g * u }");
  const auto call = [](TensorView second) {
    Arguments result;
    result.product("g", matrix(0, kM, kK), matrix(1, kN, kK));
    result.product("u", second, matrix(3, kN, kK)).tensor("y", matrix(2, kM, kN));
    return result;
  };
  EXPECT_EQ(reason(call(matrix(0, kM, kK))), "");
  EXPECT_EQ(reason(call(matrix(4, kM, kK))), "accumulators with operands A that differ");
}

TEST(FusedProblem, outputs_that_no_tile_reaches_leave_nothing_to_fuse) {
  const auto programs = language::parse_file(
      "coda 1\nprogram p(a: acc, s: f32[m]) -> r: f32[m] { r = s * 2.0 }", "test.coda");
  EXPECT_EQ(fused_problem(check::instance_of(programs.at(0), DType::bf16)),
            "no output needs the tile");
}

TEST_F(Accept, vectors_may_lie_in_any_way) {
  use("program bias(a: acc, b: T[n], s: f32[m]) -> y: T[m, n] { y = a * s + b }");
  Arguments call = linear(matrix(0, kM, kK), matrix(1, kN, kK), matrix(2, kM, kN));
  TensorView strided{at(5ll << 28), 1, {kM, 1}, {3, 0}, DType::f32, kGpu};
  call.tensor("s", strided);
  const TensorView halves[] = {vector_view(at(6ll << 28), 100, DType::bf16, kGpu),
                               vector_view(at(7ll << 28), kN - 100, DType::bf16, kGpu)};
  call.tensor("b", Axis::columns, halves);
  EXPECT_EQ(reason(call), "");
}

}  // namespace
}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Ragged shapes, alignment and the ends of tiles.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "language/library.h"
#include "language/parser.h"
#include "support/test_call.h"

namespace coda::test {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

TEST(Shapes, rows_after_the_last_full_tile) {
  for (int64_t m : {1, 31, 33, 45, 63, 65, 127, 129, 257})
    for (DType type : kTypes) TestCall(library("linear.coda", "residual"), {m, 64, 64}, type).run();
}

TEST(Shapes, columns_after_the_last_full_tile) {
  for (int64_t n : {1, 7, 65, 255, 257, 511, 513})
    for (DType type : kTypes) TestCall(library("linear.coda", "residual"), {3, n, 16}, type).run();
}

/// Sizes that fit every program of the library at N = 128.
std::vector<std::pair<std::string, int64_t>> parameters_of(const ir::Program& program) {
  std::vector<std::pair<std::string, int64_t>> result;
  for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i) {
    const std::string& name = program.symbols[i];
    const int64_t value = name == "dh"     ? 16
                          : name == "rot"  ? 96
                          : name == "part" ? 8
                          : name == "nq"   ? 4
                                           : 2;
    result.emplace_back(name, value);
  }
  return result;
}

TEST(Shapes, every_library_program_takes_one_row_and_none_and_no_columns) {
  const auto start = std::chrono::steady_clock::now();
  for (const language::LibraryFile& file : language::library_files())
    for (const ir::Program& program : language::parse_file(file.text, file.name))
      for (const Sizes sizes :
           {Sizes{1, 128, 128}, Sizes{0, 128, 128}, Sizes{5, 0, 128}, Sizes{5, 128, 0}})
        for (DType type : kTypes) {
          SCOPED_TRACE(program.name + " M " + std::to_string(sizes.m) + " N " +
                       std::to_string(sizes.n) + " K " + std::to_string(sizes.k) + " " +
                       name_of(type));
          TestCall call(Program(std::make_shared<const ir::Program>(program)), sizes, type,
                        parameters_of(program));
          if (program.name == "adamw")
            call.fill("var", [](int64_t, int64_t j) { return 0.01 * double(j + 1); });
          call.run();
        }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Shapes, depths_that_fill_no_block) {
  for (int64_t k : {1, 8, 40, 63, 64, 65, 72, 136, 192})
    for (DType type : kTypes) TestCall(library("linear.coda", "linear"), {96, 96, k}, type).run();
  TestCall(library("linear.coda", "linear"), {7, 2880, 96}, DType::bf16).run();
  TestCall(library("linear.coda", "linear"), {3, 7168, 1152}, DType::bf16).run();
}

TEST(Shapes, row_factors_are_not_read_beyond_the_last) {
  // y = a * rstd, with NaN right behind the 130 factors.
  TestCall call(library("linear.coda", "row_scale"), {130, 72, 64});
  call.fill("rstd", [](int64_t i, int64_t) { return 1 + double(i) / 64; });
  call.run();
  for (int64_t i = 0; i < 130; ++i)
    for (int64_t j = 0; j < 72; ++j)
      ASSERT_TRUE(std::isfinite(call.at("y", i, j))) << i << ", " << j;
}

TEST(Shapes, a_bias_is_added_at_every_depth) {
  // y = 0 + b: exactly the bias in each row.
  for (int64_t k : {0, 32, 64, 96, 128}) {
    TestCall call(library("linear.coda", "bias"), {33, 96, k}, DType::bf16);
    call.products["a"][0].a = call.matrix(33, k, DType::bf16, [](int64_t, int64_t) { return 0; });
    call.run();
    for (int64_t i = 0; i < 33; ++i)
      for (int64_t j = 0; j < 96; ++j) ASSERT_EQ(call.at("y", i, j), call.at("b", j)) << k;
  }
}

TEST(Shapes, a_weight_may_start_at_any_element) {
  for (int64_t shift : {1, 2, 3, 5}) {
    TestCall call(library("linear.coda", "linear"), {48, 64, 64}, DType::bf16);
    TensorView& weight = call.products["a"][0].b[0];
    const TensorView aligned = weight;
    const TensorView room =
        call.vector(64 * 64 + shift, DType::bf16, [](int64_t, int64_t) { return 0; });
    weight.data = static_cast<std::byte*>(room.data) + 2 * shift;
    for (int64_t i = 0; i < 64; ++i)
      for (int64_t j = 0; j < 64; ++j) store(weight, i, j, load(aligned, i, j));
    call.run();
  }
}

TEST(Shapes, widths_that_fill_no_vector) {
  for (int64_t n : {8, 24, 40, 56, 520, 3584, 3592})
    for (DType type : kTypes) TestCall(library("norm.coda", "residual_rms"), {3, n, 8}, type).run();
}

TEST(Shapes, wide_rows) {
  for (int64_t n : {12288, 16384, 32768})
    TestCall(library("norm.coda", "residual_rms"), {2, n, 8}, DType::bf16).run();
}

TEST(Shapes, bias_residual_and_scales_are_applied_once) {
  // y = a * s[n] + b[m] + x: one answer, fused or not, at a depth that invites splitting.
  const Program program = Program::parse(R"(coda 1
program p(a: acc, s: f32[n], b: f32[m], x: T[m, n]) -> y: f32[m, n] {
  y = a * s + b + x
}
)");
  for (bool fused : {true, false})
    for (const Sizes sizes : {Sizes{64, 64, 4096}, Sizes{100, 256, 256}}) {
      TestCall call(program, sizes, DType::bf16);
      call.fused = fused;
      call.run();
    }
}

TEST(Shapes, an_operand_may_also_be_an_input_tile) {
  // y = A B^T + A + b, A being read twice.
  const Program program = Program::parse(
      "coda 1\nprogram p(a: acc, x: T[m, n], b: T[n]) -> y: T[m, n] {\n  y = a + x + b\n}\n");
  for (DType type : kTypes) {
    TestCall call(program, {64, 64, 64}, type);
    call.view("x") = call.products["a"][0].a;
    call.run();
  }
}

TEST(Shapes, a_vector_output_ends_where_it_ends) {
  // c[n] = sum over rows, 1000 columns; the bytes behind are watched.
  const Program program = Program::parse(
      "coda 1\nprogram p(a: acc) -> c: f32[n], r: f32[m] {\n  c = sum[n](a)\n  r = sum[m](a)\n}\n");
  for (int64_t n : {1000, 1023, 1025}) TestCall(program, {130, n, 16}).run();
}

TEST(Shapes, rows_of_odd_bytes) {
  TestCall(library("linear.coda", "residual"), {17, 63, 20}, DType::f32).run();
  TestCall(library("linear.coda", "residual"), {17, 7, 20}, DType::bf16).run();
  TestCall(library("linear.coda", "residual"), {17, 9, 20}, DType::bf16).run();
}

TEST(Shapes, labels_may_lie_at_any_element) {
  TestCall aligned(library("loss.coda", "lse_target"), {5, 64, 16});
  aligned.run();
  TestCall shifted(library("loss.coda", "lse_target"), {5, 64, 16});
  TensorView& target = shifted.view("target");
  target.data = static_cast<std::byte*>(shifted.allocate(6 * 8)) + 8;
  shifted.fill("target", [&](int64_t i, int64_t) { return aligned.at("target", i); });
  shifted.run();
  EXPECT_EQ(shifted.bytes("lse"), aligned.bytes("lse"));
  EXPECT_EQ(shifted.bytes("hit"), aligned.bytes("hit"));
}

TEST(Shapes, moments_count_no_padding) {
  // x = 1000 + 100 m + ((n mod 17) - 8) / 8 over 769 columns: a variance of 0.376567 beside a mean
  // of 1000.
  const auto value = [](int64_t i, int64_t j) {
    return 1000 + 100 * double(i) + double(j % 17 - 8) / 8;
  };
  TestCall layer(library("norm.coda", "layernorm_stats"), {5, 769, 0});
  layer.fill("residual", value);
  layer.scalars["eps"] = 0;
  layer.run();
  TestCall rms(library("norm.coda", "residual_rms"), {5, 769, 0});
  rms.fill("residual", value);
  rms.scalars["eps"] = 0;
  rms.run();
  for (int64_t i = 0; i < 5; ++i) {
    const double mean = 1000 + 100 * double(i), rstd = layer.at("rstd", i);
    EXPECT_NEAR(1 / (rstd * rstd), 0.376567, 2e-5);
    EXPECT_NEAR(rms.at("rstd", i) * mean, 1, 1e-5);
  }
}

TEST(Shapes, every_column_is_its_own) {
  // Weight row j is scaled by j + 1: equal blocks of columns would be copies.
  for (int64_t n : {64, 96, 128, 192}) {
    TestCall call(library("activation.coda", "swiglu"), {32, n, 48}, DType::bf16);
    for (const char* name : {"gate", "up"})
      call.products[name][0].b[0] = call.matrix(
          n, 48, DType::bf16, [](int64_t j, int64_t k) { return t(k + 1) * double(j + 1) / 64; });
    call.run();
    for (int64_t j = 0; j + 16 < n; j += 16) {
      bool differs = false;
      for (int64_t c = 0; c < 16; ++c)
        differs = differs || call.at("y", 3, j + c) != call.at("y", 3, j + 16 + c);
      EXPECT_TRUE(differs) << "columns " << j << " and " << j + 16 << " of " << n;
    }
  }
}

}  // namespace
}  // namespace coda::test

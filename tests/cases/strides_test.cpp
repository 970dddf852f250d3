// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs that are strided, transposed, expanded or slices of something larger.
#include <gtest/gtest.h>

#include "support/test_call.h"

namespace coda::test {
namespace {

/// The same values in another layout.
TensorView laid_out(TestCall& call, const TensorView& from, const std::string& layout) {
  const auto value = [&](int64_t i, int64_t j) { return load(from, i, j); };
  if (from.rank == 1)
    return call.vector(from.shape[0], from.dtype, value, layout == "every second" ? 2 : 1);
  const int64_t rows = from.shape[0], columns = from.shape[1];
  if (layout == "every second")
    return call.matrix(rows, columns, from.dtype, value, 2 * columns, 2);
  if (layout == "padded") return call.matrix(rows, columns, from.dtype, value, columns + 5);
  if (layout == "transposed")
    return transposed(
        call.matrix(columns, rows, from.dtype, [&](int64_t j, int64_t i) { return value(i, j); }));
  return call.matrix(rows, columns, from.dtype, value);
}

constexpr const char* kLayouts[] = {"contiguous", "every second", "transposed", "padded"};

TEST(Strides, an_expanded_upstream_gradient_is_one_of_ones) {
  // d sum(y) / d x: the upstream gradient is one 1 with strides of 0.
  const Program backward = differentiate(library("norm.coda", "rms_apply")).backward;
  TestCall ones(backward, {32, 256}, DType::bf16);
  ones.fill("d_y", [](int64_t, int64_t) { return 1; });
  ones.run();
  TestCall expanded(backward, {32, 256}, DType::bf16);
  TensorView& upstream = expanded.view("d_y");
  store(upstream, 0, 0, 1);
  upstream.strides[0] = upstream.strides[1] = 0;
  expanded.run();
  for (const char* name : {"d_x", "d_w", "d_rstd"})
    EXPECT_EQ(expanded.bytes(name), ones.bytes(name)) << name;
}

TEST(Strides, every_layout_gives_the_same_bits) {
  const Program backward = differentiate(library("norm.coda", "rms_apply")).backward;
  for (int64_t n : {1, 17, 63, 64, 127, 128}) {
    TestCall plain(backward, {5, n});
    plain.run();
    for (const char* of_x : kLayouts)
      for (const char* of_dy : kLayouts)
        for (const char* of_w : {"contiguous", "every second"})
          for (const char* of_dx : kLayouts) {
            TestCall call(backward, {5, n});
            call.view("x") = laid_out(call, plain.view("x"), of_x);
            call.view("d_y") = laid_out(call, plain.view("d_y"), of_dy);
            call.view("w") = laid_out(call, plain.view("w"), of_w);
            const TensorView poison = call.matrix(5, n, DType::f32, {});
            call.view("d_x") = laid_out(call, poison, of_dx);
            call.run();
            for (const char* name : {"d_x", "d_w", "d_rstd"})
              ASSERT_EQ(call.bytes(name), plain.bytes(name))
                  << name << " with x " << of_x << ", d_y " << of_dy << ", w " << of_w << ", d_x "
                  << of_dx;
          }
  }
}

TEST(Strides, expanded_inputs_give_the_bits_of_their_copies) {
  // One row for all rows, one column for all columns, one number for all.
  const Program program = library("norm.coda", "rms_apply");
  for (const auto& [rows, columns] : {std::pair{0, 1}, {1, 0}, {0, 0}}) {
    TestCall expanded(program, {9, 70}, DType::bf16);
    TensorView& x = expanded.view("x");
    x.strides[0] *= rows, x.strides[1] *= columns;
    expanded.view("w").strides[0] = columns;
    expanded.run();
    TestCall copied(program, {9, 70}, DType::bf16);
    copied.fill("x", [&](int64_t i, int64_t j) { return load(x, i, j); });
    copied.fill("w", [&](int64_t i, int64_t) { return load(expanded.view("w"), i, 0); });
    copied.run();
    EXPECT_EQ(expanded.bytes("y"), copied.bytes("y"));
  }
}

TEST(Strides, transposed_logits_give_the_same_loss) {
  // Logits (s, b, v) = (4, 2, 8): batch b is rows of pitch 2 v, not v.
  const Program program = Program::parse(R"(coda 1
program loss(logits: f32[m, n], target: i64[m]) -> lse: f32[m], hit: f32[m] {
  lse = logsumexp[m](logits)
  hit = sum[m](where(n == target, logits, 0))
}
)");
  for (int64_t batch : {0, 1}) {
    TestCall strided(program, {4, 8});
    const TensorView all =
        strided.matrix(8, 8, DType::f32, [](int64_t i, int64_t j) { return t(8 * i + j); });
    strided.view("logits") =
        matrix_view(static_cast<float*>(all.data) + 8 * batch, 4, 8, DType::f32, 16);
    strided.run();
    TestCall copied(program, {4, 8});
    copied.fill("logits", [&](int64_t i, int64_t j) { return t(8 * (2 * i + batch) + j); });
    copied.run();
    EXPECT_EQ(strided.bytes("lse"), copied.bytes("lse"));
    EXPECT_EQ(strided.bytes("hit"), copied.bytes("hit"));
  }
}

TEST(Strides, an_operand_of_every_second_column) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    TestCall call(library("linear.coda", "bias"), {33, 40, 24}, type);
    TensorView& a = call.products["a"][0].a;
    a = laid_out(call, a, "every second");
    call.run();
  }
}

TEST(Strides, products_in_every_orientation) {
  // A and B in each of their layouts: NT, NN, TN, TT, padded and with inner strides.
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (const char* of_a : kLayouts)
      for (const char* of_b : kLayouts) {
        TestCall call(library("linear.coda", "linear"), {37, 50, 65}, type);
        TensorView &a = call.products["a"][0].a, &b = call.products["a"][0].b[0];
        a = laid_out(call, a, of_a);
        b = laid_out(call, b, of_b);
        call.run();
      }
}

TEST(Strides, expanded_operands) {
  TestCall call(library("linear.coda", "linear"), {37, 50, 65});
  call.products["a"][0].a.strides[0] = 0;
  call.products["a"][0].b[0].strides[1] = 0;
  call.run();
}

TEST(Strides, gate_and_up_as_halves_of_one_tensor) {
  // x = [gate | up], chunked in two views of row stride 2 I; the upstream gradient comes
  // transposed.
  const Program program = Program::parse(R"(coda 1
program gated(g: T[m, n], u: T[m, n]) -> y: T[m, n] {
  y = silu(g) * u
}
)");
  const Program backward = differentiate(program).backward;
  for (DType type : {DType::f32, DType::bf16}) {
    TestCall call(backward, {3, 40}, type);
    const TensorView both =
        call.matrix(3, 80, type, [](int64_t i, int64_t j) { return t(80 * i + j); });
    for (const char* name : {"g", "u"}) call.view(name) = matrix_view(both.data, 3, 40, type, 80);
    call.view("u").data = static_cast<std::byte*>(both.data) + 40 * size_of(type);
    call.view("d_y") = laid_out(call, call.view("d_y"), "transposed");
    call.run();
    // The gradients as halves of one tensor too.
    const TensorView gradient = call.matrix(3, 80, type, {});
    for (const char* name : {"d_g", "d_u"})
      call.view(name) = matrix_view(gradient.data, 3, 40, type, 80);
    call.view("d_u").data = static_cast<std::byte*>(gradient.data) + 40 * size_of(type);
    call.run();
  }
}

TEST(Strides, gradients_are_not_written_over) {
  // run() finds every byte outside the outputs unchanged, the upstream gradients among them, which
  // other branches still read: expanded ones in the rotation's backward, shared ones in the norm's.
  TestCall rotation(differentiate(library("rope.coda", "rope")).backward, {6, 64}, DType::bf16,
                    {{"dh", 16}, {"rot", 48}});
  rotation.view("d_qkv").strides[0] = rotation.view("d_qkv").strides[1] = 0;
  store(rotation.view("d_qkv"), 0, 0, 1);
  rotation.run();
  EXPECT_EQ(load(rotation.view("d_qkv"), 0, 0), 1);
  TestCall norm(differentiate(library("norm.coda", "residual_rms")).backward, {6, 64}, DType::bf16);
  norm.view("d_h") = norm.view("d_x");
  norm.run();
}

TEST(Strides, weights_as_slices_of_one_packed_tensor) {
  // Packed [E = 2, 2 I, H]: expert e has e + 1 in its gate rows and -(e + 1) in its up rows.
  constexpr int64_t kI = 32, kH = 64;
  for (int64_t expert : {0, 1}) {
    TestCall call(library("activation.coda", "swiglu"), {7, kI, kH}, DType::bf16);
    const TensorView packed = call.matrix(4 * kI, kH, DType::bf16, [](int64_t row, int64_t) {
      const int64_t owner = row / (2 * kI);
      const double value = double(owner + 1);
      return row / kI % 2 == 0 ? value : -value;
    });
    const auto slice = [&](int64_t row) {
      return matrix_view(static_cast<std::byte*>(packed.data) + 2 * row * kH, kI, kH, DType::bf16);
    };
    const auto a = [](int64_t i, int64_t j) { return t(kH * i + j) / 16; };
    const TensorView x = call.matrix(7, kH, DType::bf16, a);
    call.products["gate"] = {{x, {slice(2 * kI * expert)}}};
    call.products["up"] = {{x, {slice(2 * kI * expert + kI)}}};
    call.run();
    for (int64_t i = 0; i < 7; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < kH; ++j) sum += load(x, i, j);
      EXPECT_NEAR(call.at("g", i, 5), sum * double(expert + 1), 0.05 + 0.01 * std::abs(sum));
      EXPECT_EQ(call.at("u", i, 5), -call.at("g", i, 5));
    }
  }
}

TEST(Strides, each_output_has_its_own_pitch) {
  for (int64_t n : {40, 300}) {
    TestCall call(library("norm.coda", "residual_rms"), {70, n, 16}, DType::bf16);
    call.view("x") = call.matrix(70, n, DType::bf16, {}, n + 8);
    call.view("h") = call.matrix(70, n, DType::bf16, {}, n + 24);
    call.run();
  }
}

TEST(Strides, a_residual_of_stride_zero_or_wide_pitch) {
  for (int64_t pitch : {int64_t{0}, int64_t{144}}) {
    TestCall call(library("linear.coda", "residual"), {70, 72, 16}, DType::bf16);
    TensorView& x = call.view("x");
    x = call.matrix(
        70, 72, DType::bf16, [](int64_t i, int64_t j) { return t(72 * i + j); }, 144);
    x.strides[0] = pitch;
    call.run();
  }
}

TEST(Strides, weights_side_by_side_in_memory_of_their_own) {
  // q | k | v: three weights, each with its own pitch, and the output in three tensors.
  TestCall call(library("linear.coda", "bias"), {70, 96, 40}, DType::bf16);
  const auto weight = [&](int64_t rows, int64_t first, int64_t pitch) {
    return call.matrix(
        rows, 40, DType::bf16, [=](int64_t i, int64_t j) { return t(40 * (first + i) + j); },
        pitch);
  };
  call.products["a"][0].b = {weight(48, 0, 40), weight(16, 48, 56), weight(32, 64, 41)};
  call.tensors["y"] = {
      Axis::columns,
      {call.matrix(70, 48, DType::bf16, {}), call.matrix(70, 16, DType::bf16, {}, 24),
       call.matrix(70, 32, DType::bf16, {})}};
  call.tensors["b"] = {Axis::columns,
                       {call.vector(50, DType::bf16, [](int64_t i, int64_t) { return t(i); }),
                        call.vector(
                            46, DType::bf16, [](int64_t i, int64_t) { return t(i + 50); }, 3)}};
  call.run();
}

TEST(Strides, an_update_in_place_is_that_of_a_copy) {
  for (int64_t pitch : {72, 90}) {
    TestCall apart(library("optimizer.coda", "accumulate"), {70, 72, 16});
    apart.run();
    TestCall in_place(library("optimizer.coda", "accumulate"), {70, 72, 16});
    in_place.view("old") = in_place.matrix(
        70, 72, DType::f32, [&](int64_t i, int64_t j) { return apart.at("old", i, j); }, pitch);
    in_place.view("g") = in_place.view("old");
    in_place.run();
    EXPECT_EQ(in_place.bytes("g"), apart.bytes("g"));
  }
}

}  // namespace
}  // namespace coda::test

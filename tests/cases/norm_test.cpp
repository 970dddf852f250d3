// SPDX-License-Identifier: Apache-2.0
// Norms: where they are computed in float32, where they round, and what their gradients are.
#include <gtest/gtest.h>

#include <cmath>

#include "support/test_call.h"

namespace coda::test {
namespace {

/// y = x / sqrt(mean(x^2) + eps) by the two programs that make it, w = 1.
double norm_of(double magnitude, double eps, DType type, int64_t n) {
  const auto value = [=](int64_t, int64_t j) { return j % 3 ? magnitude : -magnitude; };
  TestCall stats(library("norm.coda", "rms_stats"), {2, n}, type);
  stats.fill("x", value);
  stats.scalars["eps"] = eps;
  stats.run();
  TestCall apply(library("norm.coda", "rms_apply"), {2, n}, type);
  apply.fill("x", value);
  apply.fill("w", [](int64_t, int64_t) { return 1; });
  apply.fill("rstd", [&](int64_t i, int64_t) { return stats.at("rstd", i); });
  apply.run();
  return apply.at("y", 1, 1);
}

TEST(Norms, squares_of_f16_do_not_overflow) {
  EXPECT_NEAR(norm_of(300, 1e-6, DType::f16, 128), 1, 0x1p-10);
}

TEST(Norms, eps_is_the_number_given) {
  EXPECT_NEAR(norm_of(0.0078125, 1e-6, DType::bf16, 64), 0.991907, 0x1p-8);
  EXPECT_NEAR(norm_of(0.0078125, 1e-6, DType::f32, 64), 0.991907, 1e-6);
}

TEST(Norms, eps_stands_inside_the_root) {
  EXPECT_NEAR(norm_of(0.001, 1e-3, DType::f32, 64), 0.031607, 1e-6);
}

TEST(Norms, a_long_sum_of_small_gradients) {
  // d_w = sum over 4096 rows of 2^-9 * x * rstd = 8.
  TestCall call(differentiate(library("norm.coda", "rms_apply")).backward, {4096, 64}, DType::bf16);
  for (const auto& [name, value] :
       {std::pair{"d_y", 0x1p-9}, {"x", 1.0}, {"w", 1.0}, {"rstd", 1.0}})
    call.fill(name, [value = value](int64_t, int64_t) { return value; });
  call.run();
  for (int64_t j = 0; j < 64; ++j) EXPECT_NEAR(call.at("d_w", j), 8, 1e-3);
}

TEST(Norms, one_plus_w_is_made_in_float32) {
  const Program gemma = Program::parse(
      "coda 1\nprogram gemma(x: T[m, n], w: T[n], rstd: f32[m]) -> y: T[m, n] {\n  y = x * rstd * "
      "(1 + w)\n}\n");
  for (double w : {0.0, 0.01171875}) {
    TestCall call(gemma, {5, 64}, DType::bf16);
    call.fill("w", [=](int64_t, int64_t) { return w; });
    call.fill("rstd", [](int64_t, int64_t) { return 1; });
    call.run();
    // 1 + w in bf16 would be 1.0078125 or 1.015625.
    TestCall rounded(
        Program::parse("coda 1\nprogram r(x: f32[m, n]) -> y: T[m, n] {\n  y = x\n}\n"), {5, 64},
        DType::bf16);
    rounded.fill("x", [&](int64_t i, int64_t j) { return call.at("x", i, j) * (1 + w); });
    rounded.launch();
    EXPECT_EQ(call.bytes("y"), rounded.bytes("y"));
  }
}

TEST(Norms, statistics_are_of_the_unrounded_sum) {
  // x = 1 + 2^-9 is stored as 1 in bf16; rstd is that of the sum itself, unless the program rounds
  // it.
  for (const auto& [sum, rstd] :
       {std::pair{"a + residual", 1 / (1 + 0x1p-9)}, {"round(a + residual, T)", 1.0}})
    for (bool fused : {true, false}) {
      TestCall call(
          Program::parse(
              "coda 1\nprogram p(a: acc, residual: T[m, n]) -> x: T[m, n], rstd: f32[m] {\n"
              "  x = " +
              std::string(sum) + "\n  rstd = rsqrt(mean[m](x*x))\n}\n"),
          {3, 128, 1}, DType::bf16);
      call.fused = fused;
      const auto one = [](int64_t, int64_t) { return 1; };
      call.products["a"] = {
          {call.matrix(3, 1, DType::bf16, one), {call.matrix(128, 1, DType::bf16, one)}}};
      call.fill("residual", [](int64_t, int64_t) { return 0x1p-9; });
      call.run();
      EXPECT_EQ(call.at("x", 1, 1), 1);
      EXPECT_NEAR(call.at("rstd", 1), rstd, 1e-6) << sum;
    }
}

TEST(Norms, fused_and_unfused_have_the_same_bits) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    TestCall fused(library("norm.coda", "residual_rms"), {150, 300, 70}, type);
    fused.run();
    TestCall unfused(library("norm.coda", "residual_rms"), {150, 300, 70}, type);
    unfused.fused = false;
    unfused.run();
    for (const char* name : {"x", "h", "rstd"})
      EXPECT_EQ(fused.bytes(name), unfused.bytes(name)) << name;
  }
}

TEST(Norms, outputs_have_the_type_declared) {
  // A bf16 x with an f32 weight: y is bf16, rounded once.
  const Program program = Program::parse(
      "coda 1\nprogram p(x: T[m, n], w: f32[n], rstd: f32[m]) -> y: T[m, n], z: f32[m, n] {\n"
      "  y = x * rstd * w\n  z = y\n}\n");
  TestCall call(program, {7, 65}, DType::bf16);
  call.run();
  TestCall rounded(Program::parse("coda 1\nprogram r(x: f32[m, n]) -> y: T[m, n] {\n  y = x\n}\n"),
                   {7, 65}, DType::bf16);
  rounded.fill("x", [&](int64_t i, int64_t j) { return call.at("z", i, j); });
  rounded.launch();
  EXPECT_EQ(call.bytes("y"), rounded.bytes("y"));
}

TEST(Norms, norm_and_rotation_fused_and_apart) {
  // The fused program rounds once, at its store: it equals the norm with an f32 result, then the
  // rotation.
  const std::vector<std::pair<std::string, int64_t>> heads{{"dh", 16}, {"nq", 3}, {"nk", 1}};
  TestCall fused(library("rope.coda", "qk_norm_rope"), {9, 96, 40}, DType::bf16, heads);
  fused.scalars["eps"] = 1e-6;
  fused.run();
  const Program norm = Program::parse(R"(coda 1
program qk_norm<dh, nq, nk>(a: acc, wq: T[n % dh], wk: T[n % dh], eps: f32) -> y: f32[m, n] {
  r = rsqrt(mean[m, n:dh](a*a) + eps)
  y = where(n < (nq+nk)*dh, a * r * where(n < nq*dh, wq, wk), a)
}
)");
  TestCall first(norm, {9, 96, 40}, DType::bf16, heads);
  first.scalars["eps"] = 1e-6;
  for (const char* name : {"wq", "wk"})
    first.fill(name, [&, name](int64_t i, int64_t) { return fused.at(name, i); });
  first.run();
  const Program rotation = Program::parse(R"(coda 1
program rotation<dh, rot>(a: f32[m, n], pos: i32[m], freq: f32[n/2 % dh/2]) -> qkv: T[m, n] {
  x, y = split(a, dh/2)
  t = pos * freq
  qkv = where(n < rot, join(x*cos(t) - y*sin(t), y*cos(t) + x*sin(t), dh/2), a)
}
)");
  TestCall second(rotation, {9, 96}, DType::bf16, {{"dh", 16}, {"rot", 64}});
  second.fill("a", [&](int64_t i, int64_t j) { return first.at("y", i, j); });
  second.fill("pos", [&](int64_t i, int64_t) { return fused.at("pos", i); });
  second.fill("freq", [&](int64_t i, int64_t) { return fused.at("freq", i); });
  second.run();
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t j = 0; j < 96; ++j) {
      const double value = second.at("qkv", i, j);
      EXPECT_NEAR(fused.at("qkv", i, j), value, 0x1p-7 * std::abs(value) + 1e-6) << i << ", " << j;
    }
}

TEST(Norms, a_rounded_activation_is_rounded_in_the_backward_too) {
  // GeGLU in f16 whose forward rounds what it stores: d_up is d_y times the activation as stored.
  const Program program = Program::parse(R"(coda 1
program geglu(gate: acc, up: acc) -> g: T[m, n], act: T[m, n], u: T[m, n], y: T[m, n] {
  g = round(gate, T)
  act = round(gelu_tanh(g), T)
  u = up
  y = act * u
}
)");
  TestCall forward(program, {4, 64, 24}, DType::f16);
  forward.run();
  const std::string_view of[] = {"y"};
  const Derivative derivative = differentiate(program, {.of = of});
  TestCall backward(derivative.backward, {4, 64}, DType::f16);
  for (auto& [name, tensor] : backward.tensors)
    if (forward.tensors.contains(name))
      backward.fill(name,
                    [&, name = name](int64_t i, int64_t j) { return forward.at(name, i, j); });
  backward.run();
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 64; ++j) {
      const double expected = backward.at("d_y", i, j) * forward.at("act", i, j);
      EXPECT_NEAR(backward.at("d_up", i, j), expected, 0x1p-10 * std::abs(expected) + 0x1p-24);
    }
}

TEST(Norms, a_zero_gate_gives_a_zero_column_of_the_weight_gradient) {
  // y = norm(x) silu(g) feeds a linear: column 3 of dW = dz^T y is exactly 0 where g's column 3 is.
  const Program program = Program::parse(
      "coda 1\nprogram gated(x: T[m, n], g: T[m, n], w: T[n], rstd: f32[m]) -> y: T[m, n] {\n"
      "  y = x * rstd * w * silu(g)\n}\n");
  TestCall gated(program, {24, 16}, DType::bf16);
  gated.fill("g", [](int64_t i, int64_t j) { return j == 3 ? 0 : t(16 * i + j + 77); });
  gated.run();
  TestCall product(library("linear.coda", "linear"), {10, 16, 24}, DType::bf16);
  const TensorView dz =
      product.matrix(24, 10, DType::bf16, [](int64_t i, int64_t j) { return t(10 * i + j); });
  product.products["a"] = {{transposed(dz), {transposed(gated.view("y"))}}};
  product.run();
  for (int64_t i = 0; i < 10; ++i)
    for (int64_t j = 0; j < 16; ++j) {
      EXPECT_EQ(product.at("y", i, j) == 0, j == 3) << i << ", " << j;
    }
}

}  // namespace
}  // namespace coda::test

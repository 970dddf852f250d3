// SPDX-License-Identifier: Apache-2.0
// Cross-entropy from programs and its derived gradients.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/test_call.h"

namespace coda::test {
namespace {

/// One loss for each row, from logits in memory.
Program row_loss() {
  return Program::parse(R"(coda 1
program row_loss(z: f32[m, n], target: i64[m]) -> loss: f32[m] {
  loss = logsumexp[m](z) - sum[m](where(n == target, z, 0))
}
)");
}

/// log sum exp of row `i` of a tensor with N columns.
double lse_of(const TestCall& call, const std::string& logits, int64_t i, int64_t n) {
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(call.at(logits, i, j));
  return std::log(sum);
}

TEST(Loss, ignored_rows_alone_give_zeros) {
  // Even where the scale 1 / count is 1 / 0.
  TestCall loss(library("loss.coda", "cross_entropy"), {4, 16});
  loss.fill("target", [](int64_t, int64_t) { return -100; });
  loss.run();
  EXPECT_EQ(loss.at("loss", 0), 0);
  EXPECT_EQ(loss.at("count", 0), 0);
  TestCall gradient(library("loss.coda", "cross_entropy_grad"), {4, 16}, DType::bf16);
  gradient.fill("target", [](int64_t, int64_t) { return -100; });
  gradient.fill("scale", [](int64_t, int64_t) { return std::numeric_limits<double>::infinity(); });
  gradient.run();
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(gradient.at("d_logits", i, j), 0);
}

TEST(Loss, an_ignored_row_changes_nothing_else) {
  std::vector<std::vector<std::byte>> lse, gradient;
  for (double change : {0, 100}) {
    TestCall call(library("loss.coda", "cross_entropy_grad"), {5, 33});
    const auto logit = [=](int64_t i, int64_t j) { return t(33 * i + j) + (i == 2 ? change : 0); };
    call.fill("logits", logit);
    call.fill("target", [](int64_t i, int64_t) { return i == 2 ? -100 : double(i); });
    call.run();
    gradient.push_back(call.bytes("d_logits"));
    TestCall sums(library("loss.coda", "cross_entropy"), {5, 33});
    for (const char* name : {"lse", "hit"})
      sums.fill(name, [=](int64_t i, int64_t) { return t(i) + (i == 2 ? change : 0); });
    sums.fill("target", [&](int64_t i, int64_t) { return call.at("target", i); });
    sums.run();
    lse.push_back(sums.bytes("loss"));
  }
  EXPECT_EQ(lse[0], lse[1]);
  EXPECT_EQ(gradient[0], gradient[1]);
}

TEST(Loss, chunks_of_rows_give_the_same_bits) {
  constexpr int64_t kM = 70, kN = 129, kK = 24;
  const Program program = library("loss.coda", "lse_target");
  const auto label = [](int64_t i) { return double(7 * i % kN); };
  TestCall whole(program, {kM, kN, kK}, DType::bf16);
  whole.fill("target", [&](int64_t i, int64_t) { return label(i); });
  whole.run();
  for (int64_t chunk : {1, 16, 64})
    for (int64_t first = 0; first < kM; first += chunk) {
      const int64_t rows = std::min(chunk, kM - first);
      TestCall part(program, {rows, kN, kK}, DType::bf16);
      TestCall::Term& term = part.products["a"][0];
      const TestCall::Term& source = whole.products["a"][0];
      term.a = part.matrix(rows, kK, DType::bf16,
                           [&](int64_t i, int64_t j) { return load(source.a, first + i, j); });
      part.fill("rstd", [&](int64_t i, int64_t) { return whole.at("rstd", first + i); });
      part.fill("target", [&](int64_t i, int64_t) { return label(first + i); });
      part.launch();
      for (int64_t i = 0; i < rows; ++i)
        for (const char* name : {"lse", "hit"})
          ASSERT_EQ(part.at(name, i), whole.at(name, first + i)) << name << ", chunks of " << chunk;
    }
}

TEST(Loss, each_row_has_its_own_upstream_gradient) {
  // d z = g (softmax(z) - onehot) with g = (1, 2, -1).
  const double upstream[] = {1, 2, -1};
  TestCall forward(row_loss(), {3, 8});
  forward.run();
  TestCall backward(differentiate(row_loss()).backward, {3, 8});
  backward.fill("d_loss", [&](int64_t i, int64_t) { return upstream[i]; });
  backward.fill("z", [&](int64_t i, int64_t j) { return forward.at("z", i, j); });
  backward.fill("target", [&](int64_t i, int64_t) { return forward.at("target", i); });
  for (auto& [name, tensor] : backward.tensors)  // what the forward saves: the log-sum-exp
    if (name != "d_loss" && name != "z" && name != "target" && name != "d_z")
      backward.fill(name, [&](int64_t i, int64_t) { return lse_of(forward, "z", i, 8); });
  backward.run();
  for (int64_t i = 0; i < 3; ++i) {
    const double lse = lse_of(forward, "z", i, 8);
    EXPECT_NEAR(forward.at("loss", i), lse - forward.at("z", i, int64_t(forward.at("target", i))),
                1e-5);
    for (int64_t j = 0; j < 8; ++j) {
      const double onehot = double(j) == forward.at("target", i);
      EXPECT_NEAR(backward.at("d_z", i, j),
                  upstream[i] * (std::exp(forward.at("z", i, j) - lse) - onehot), 1e-5);
    }
  }
}

TEST(Loss, a_scalar_upstream_gradient_scales_all) {
  // loss = sum over counted rows of lse - hit: every row's gradient is the one number upstream.
  const Program backward = differentiate(library("loss.coda", "cross_entropy")).backward;
  for (double upstream : {1.0, 0.125, 3.0}) {
    TestCall call(backward, {5, 16});
    call.fill("d_loss", [=](int64_t, int64_t) { return upstream; });
    call.fill("target", [](int64_t i, int64_t) { return i == 3 ? -100 : double(i); });
    call.run();
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(call.at("d_lse", i), i == 3 ? 0 : upstream);
      EXPECT_EQ(call.at("d_hit", i), i == 3 ? 0 : -upstream);
    }
  }
}

TEST(Loss, softcap_enters_value_and_gradient) {
  // z = 30 tanh(x / 30) with logits up to +-60, d x = d z (1 - tanh^2).
  const Program program = Program::parse(
      "coda 1\nprogram cap(x: f32[m, n]) -> z: f32[m, n] {\n  z = softcap(x, 30.0)\n}\n");
  const auto logit = [](int64_t i, int64_t j) { return 40 * t(9 * i + j); };
  TestCall forward(program, {3, 9});
  forward.fill("x", logit);
  forward.run();
  TestCall backward(differentiate(program).backward, {3, 9});
  for (auto& [name, tensor] : backward.tensors)
    if (forward.tensors.contains(name))
      backward.fill(name,
                    [&, name = name](int64_t i, int64_t j) { return forward.at(name, i, j); });
  backward.run();
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 9; ++j) {
      const double tanh = std::tanh(logit(i, j) / 30);
      EXPECT_NEAR(forward.at("z", i, j), 30 * tanh, 2e-5);
      EXPECT_NEAR(backward.at("d_x", i, j), backward.at("d_z", i, j) * (1 - tanh * tanh), 2e-6);
    }
}

TEST(Loss, a_bias_enters_the_loss) {
  // loss = lse(a + b) - (a + b)[target] >= 0, and the gradient of b is the column sum of that of
  // the logits.
  const Program program = Program::parse(R"(coda 1
program biased(a: acc, b: f32[n], target: i64[m]) -> z: f32[m, n], loss: f32[m] {
  z = a + b
  loss = logsumexp[m](z) - sum[m](where(n == target, z, 0))
}
)");
  TestCall forward(program, {4, 33, 16});
  forward.fill("b", [](int64_t i, int64_t) { return 4 * t(i); });
  forward.run();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_GE(forward.at("loss", i), 0);
    EXPECT_NEAR(forward.at("loss", i),
                lse_of(forward, "z", i, 33) - forward.at("z", i, int64_t(forward.at("target", i))),
                1e-4);
  }
  const std::string_view of[] = {"loss"};
  TestCall backward(differentiate(program, {.of = of}).backward, {4, 33});
  for (auto& [name, tensor] : backward.tensors)
    if (forward.tensors.contains(name) && name != "loss")
      backward.fill(name,
                    [&, name = name](int64_t i, int64_t j) { return forward.at(name, i, j); });
  backward.run();
  for (int64_t j = 0; j < 33; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < 4; ++i) sum += backward.at("d_a", i, j);
    EXPECT_NEAR(backward.at("d_b", j), sum, 1e-5 * (1 + std::abs(sum)));
  }
}

TEST(Loss, many_small_terms_add_up) {
  // 4096 tokens, each giving 2^-10 to a weight's gradient: 4, where a sum in bf16 stops at 0.25.
  TestCall call(library("linear.coda", "linear"), {16, 24, 4096}, DType::bf16);
  TestCall::Term& term = call.products["a"][0];
  term.a = call.matrix(16, 4096, DType::bf16, [](int64_t, int64_t) { return 0x1p-10; });
  term.b = {call.matrix(24, 4096, DType::bf16, [](int64_t, int64_t) { return 1; })};
  call.run();
  for (int64_t j = 0; j < 24; ++j) EXPECT_EQ(call.at("y", 7, j), 4);
}

TEST(Loss, the_logit_of_the_label_is_not_rounded_apart) {
  // Logits of 20, that of the label 20.125: loss = log((N - 1) e^-0.125 + 1).
  TestCall call(library("loss.coda", "lse_target"), {1, 64, 1}, DType::bf16);
  TestCall::Term& term = call.products["a"][0];
  term.a = call.matrix(1, 1, DType::bf16, [](int64_t, int64_t) { return 1; });
  term.b = {
      call.matrix(64, 1, DType::bf16, [](int64_t j, int64_t) { return j == 5 ? 20.125 : 20; })};
  call.fill("rstd", [](int64_t, int64_t) { return 1; });
  call.fill("target", [](int64_t, int64_t) { return 5; });
  call.run();
  EXPECT_NEAR(call.at("lse", 0) - call.at("hit", 0), std::log(63 * std::exp(-0.125) + 1), 4e-6);
}

TEST(Loss, labels_out_of_range_are_found) {
  TestCall call(library("loss.coda", "lse_target"), {4, 16, 8});
  call.fill("target", [](int64_t i, int64_t) { return i == 2 ? 23 : double(i); });
  try {
    check_labels(call.view("target"), 16, -100);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.got(), "23 in row 2");
  }
  // Unchecked, such a label matches no column; nothing is read beyond the row.
  call.run();
  EXPECT_EQ(call.at("hit", 2), 0);
}

}  // namespace
}  // namespace coda::test

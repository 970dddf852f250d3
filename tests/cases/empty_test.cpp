// SPDX-License-Identifier: Apache-2.0
// Calls on no rows, no columns and no depth.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/test_call.h"

namespace coda::test {
namespace {

TEST(Empty, outputs_of_no_rows_are_empty_and_sums_zero) {
  for (const auto& [file, name] : {std::pair{"linear.coda", "linear"},
                                   {"norm.coda", "residual_rms"},
                                   {"activation.coda", "swiglu"}})
    TestCall(library(file, name), {0, 64, 32}, DType::bf16).run();
  TestCall loss(library("loss.coda", "cross_entropy"), {0, 64});
  loss.run();
  EXPECT_EQ(loss.at("loss", 0), 0);
  EXPECT_EQ(loss.at("count", 0), 0);
}

TEST(Empty, a_backward_over_no_rows_gives_zero_gradients) {
  for (const auto& [file, name] : {std::pair{"linear.coda", "bias"},
                                   {"norm.coda", "residual_rms"},
                                   {"norm.coda", "rms_apply"},
                                   {"norm.coda", "layernorm_apply"}}) {
    const Derivative derivative = differentiate(library(file, name));
    TestCall call(derivative.backward, {0, 64}, DType::bf16);
    call.run();
    for (const ir::Output& output : derivative.backward.ir().outputs) {
      if (output.dims.rows) continue;
      for (int64_t j = 0; j < 64; ++j)
        EXPECT_EQ(call.at(output.name, j), 0) << name << ", " << output.name;
    }
  }
}

TEST(Empty, a_product_over_no_tokens_is_zero) {
  // The gradient of a weight that saw no token: dW = dY^T X with K = 0.
  TestCall call(library("linear.coda", "linear"), {64, 48, 0}, DType::bf16);
  call.run();
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < 48; ++j) ASSERT_EQ(call.at("y", i, j), 0);
}

TEST(Empty, no_depth_leaves_the_rest_of_the_sum) {
  // Terms without depth add nothing, before and after one that has some.
  TestCall call(library("linear.coda", "linear"), {20, 24, 16});
  const auto none = [](int64_t, int64_t) { return 0; };
  TestCall::Term empty{call.matrix(20, 0, DType::f32, none),
                       {call.matrix(24, 0, DType::f32, none)}};
  call.products["a"].push_back(empty);
  call.products["a"].insert(call.products["a"].begin(), empty);
  call.run();
}

TEST(Empty, an_optimizer_step_over_nothing) {
  for (int64_t n : {4, 0, 3}) {
    TestCall call(library("optimizer.coda", "adamw"), {1, n});
    call.fill("var", [](int64_t, int64_t j) { return 0.01 * double(j + 1); });
    call.run();
  }
}

TEST(Empty, reductions_of_nothing_have_their_values) {
  const Program program = Program::parse(R"(coda 1
program p(x: T[m, n], i: i32[m, n]) -> s: f32[m], h: f32[m], l: f32[m], e: f32[m], v: f32[m], b: i64[m],
                                       is: i64[m], ih: i64[m], il: i64[m] {
  s = sum[m](x)
  h = max[m](x)
  l = min[m](x)
  e = logsumexp[m](x)
  v = mean[m](x)
  b = argmax[m](x)
  is = sum[m](i)
  ih = max[m](i)
  il = min[m](i)
}
)");
  TestCall call(program, {3, 0});
  call.run();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(call.at("s", i), 0);
    EXPECT_EQ(call.at("h", i), -kInfinity);
    EXPECT_EQ(call.at("l", i), kInfinity);
    EXPECT_EQ(call.at("e", i), -kInfinity);
    EXPECT_TRUE(std::isnan(call.at("v", i)));
    EXPECT_EQ(call.at("b", i), -1);
    EXPECT_EQ(call.at("is", i), 0);
    EXPECT_EQ(call.at("ih", i), -0x1p63);
    EXPECT_EQ(call.at("il", i), 0x1p63);
  }
}

}  // namespace
}  // namespace coda::test

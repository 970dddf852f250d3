// SPDX-License-Identifier: Apache-2.0
// Activations and their derived gradients against tables of their formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "support/test_call.h"

namespace coda::test {
namespace {

constexpr double kPoints[] = {-3, -1, 0.25, 1, 3};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Activation {
  const char* expression;
  double (*value)(double);
  double (*slope)(double);
};

const Activation kActivations[] = {
    {"relu2(x)", [](double x) { return x > 0 ? x * x : 0; },
     [](double x) { return x > 0 ? 2 * x : 0; }},
    {"relu(x)", [](double x) { return x > 0 ? x : 0; }, [](double x) { return x > 0 ? 1.0 : 0; }},
    {"silu(x)", [](double x) { return x * sigmoid(x); },
     [](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }},
    {"quick_gelu(x)", [](double x) { return x * sigmoid(1.702 * x); },
     [](double x) { return sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - sigmoid(1.702 * x))); }},
    {"gelu(x)", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); },
     [](double x) {
       return (1 + std::erf(x / std::sqrt(2.0))) / 2 +
              x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
     }},
    {"gelu_tanh(x)",
     [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     [](double x) {
       const double c = std::sqrt(2 / M_PI), u = std::tanh(c * (x + 0.044715 * x * x * x));
       return (1 + u) / 2 + x / 2 * (1 - u * u) * c * (1 + 3 * 0.044715 * x * x);
     }},
    {"softplus(x)", [](double x) { return std::log1p(std::exp(x)); },
     [](double x) { return sigmoid(x); }},
    {"softcap(x, 2.0)", [](double x) { return 2 * std::tanh(x / 2); },
     [](double x) { return 1 - std::tanh(x / 2) * std::tanh(x / 2); }},
    // The gate of gpt-oss with its clamps at 7, for an up of 1: x sigmoid(1.702 x) (1 + 1).
    {"min(x, 7.0) * sigmoid(1.702 * min(x, 7.0)) * (clamp(1.0, -7.0, 7.0) + 1.0)",
     [](double x) { return 2 * x * sigmoid(1.702 * x); },
     [](double x) { return 2 * sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - sigmoid(1.702 * x))); }},
};

TEST(Activations, values_and_slopes) {
  for (const Activation& activation : kActivations) {
    SCOPED_TRACE(activation.expression);
    const Program program =
        Program::parse("coda 1\nprogram f(x: f32[m, n]) -> y: f32[m, n] {\n  y = " +
                       std::string(activation.expression) + "\n}\n");
    const auto point = [](int64_t, int64_t j) { return kPoints[j]; };
    TestCall forward(program, {1, 5});
    forward.fill("x", point);
    forward.run();
    TestCall backward(differentiate(program).backward, {1, 5});
    backward.fill("d_y", [](int64_t, int64_t) { return 1; });
    if (backward.tensors.contains("x")) backward.fill("x", point);
    // What the backward reads instead of x is what the forward saved.
    for (auto& [name, tensor] : backward.tensors)
      if (name != "d_y" && name != "x" && name != "d_x")
        backward.fill(name,
                      [&, name = name](int64_t i, int64_t j) { return forward.at(name, i, j); });
    backward.run();
    for (int64_t j = 0; j < 5; ++j) {
      EXPECT_NEAR(forward.at("y", 0, j), activation.value(kPoints[j]), 2e-6) << "at " << kPoints[j];
      EXPECT_NEAR(backward.at("d_x", 0, j), activation.slope(kPoints[j]), 4e-6)
          << "at " << kPoints[j];
    }
  }
}

TEST(Activations, the_two_forms_of_gelu_are_not_mixed) {
  for (const auto& [name, value] :
       {std::pair{"bias_gelu", 0.841345}, {"bias_gelu_tanh", 0.841192}}) {
    TestCall call(library("activation.coda", name), {1, 3, 0});
    call.fill("b", [](int64_t, int64_t) { return 1; });
    call.run();
    EXPECT_NEAR(call.at("y", 0, 1), value, 1e-6) << name;
  }
}

TEST(Activations, large_arguments_saturate_without_nan) {
  const Program program = Program::parse(
      "coda 1\nprogram f(x: f32[m, n]) -> s: f32[m, n], g: f32[m, n], p: f32[m, n], c: f32[m, n] "
      "{\n"
      "  s = silu(x)\n  g = gelu_tanh(x)\n  p = softplus(x)\n  c = softcap(x, 30.0)\n}\n");
  TestCall call(program, {1, 4});
  const double points[] = {-1000, 1000, -89, 89};
  call.fill("x", [&](int64_t, int64_t j) { return points[j]; });
  call.run();
  EXPECT_NEAR(call.at("s", 0, 0), 0, 1e-30);
  EXPECT_EQ(call.at("s", 0, 1), 1000);
  EXPECT_EQ(call.at("g", 0, 1), 1000);
  EXPECT_EQ(call.at("p", 0, 1), 1000);
  EXPECT_EQ(call.at("c", 0, 1), 30);
}

}  // namespace
}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
// What reports call the values and the products of a plan.
#include "rewrite/labels.h"

#include <gtest/gtest.h>

#include "rewrite/blocks.h"
#include "rewrite/rewrite.h"

namespace coda::test {
namespace {

using rewrite::short_name;

TEST(Labels, a_parameter_goes_by_the_part_that_tells_it_from_others_of_its_layer) {
  EXPECT_EQ(short_name("model.layers.3.mlp.gate_proj.weight"), "gate");
  EXPECT_EQ(short_name("model.layers.3.input_layernorm.weight"), "input_layernorm");
  EXPECT_EQ(short_name("model.layers.3.self_attn.q_proj.bias"), "q_bias");
  EXPECT_EQ(short_name("d_model.layers.3.mlp.down_proj.weight"), "d_down");
  EXPECT_EQ(short_name("lm_head.weight"), "lm_head");
  EXPECT_EQ(short_name("wo"), "wo");
  EXPECT_EQ(short_name("d_wo"), "d_wo");
}

/// A gated MLP with its norm, in training.
rewrite::Plan mlp(bool fused) {
  GraphBuilder g("mlp");
  Parts p{g, {}};
  const Value x = g.activations("x", p.w.d), h = p.norm(x, "norm");
  // In statements, as arguments are evaluated in any order.
  const Value gate = p.project(h, "gate", p.w.f, p.w.d);
  const Value up = p.project(h, "up", p.w.f, p.w.d);
  g.output("y", x + p.project(swiglu(gate, up), "down", p.w.d, p.w.f));
  rewrite::Options options;
  options.fused = fused;
  options.of = {"y"};
  options.wrt = {"x", "norm", "gate", "up", "down"};
  return rewrite::labelled(rewrite::rewrite(g.build().ir(), options));
}

std::vector<std::string> products(const rewrite::Plan& plan) {
  std::vector<std::string> result;
  for (const rewrite::Step& step : plan.steps)
    if (rewrite::is_gemm(step)) result.push_back(rewrite::describe(plan, step).products);
  return result;
}

TEST(Labels, products_of_a_fused_plan_show_what_was_joined) {
  EXPECT_EQ(products(mlp(true)),
            (std::vector<std::string>{"gate|up.in * gate|up", "down.in * down", "d_y * down^T",
                                      "d_y^T * down.in", "d_gate|up.out * gate|up^T",
                                      "d_gate|up.out^T * gate|up.in"}));
}

TEST(Labels, products_of_an_unfused_plan_stand_alone) {
  const std::vector<std::string> all = products(mlp(false));
  EXPECT_EQ(all.size(), 9U);
  EXPECT_EQ(std::vector<std::string>(all.begin(), all.begin() + 3),
            (std::vector<std::string>{"gate|up.in * gate", "gate|up.in * up", "down.in * down"}));
}

TEST(Labels, no_buffer_keeps_a_number) {
  for (const bool fused : {true, false})
    for (const rewrite::Buffer& buffer : mlp(fused).buffers) {
      EXPECT_NE(buffer.name, "");
      EXPECT_NE(buffer.name[0], '%') << buffer.name;
    }
}

TEST(Labels, a_step_is_described_by_its_program) {
  const rewrite::Plan plan = mlp(true);
  for (const rewrite::Step& step : plan.steps) {
    const rewrite::Description d = rewrite::describe(plan, step);
    if (d.products != "down.in * down") continue;
    EXPECT_EQ(d.work, "+");
    EXPECT_EQ(d.inputs, std::vector<std::string>{"x"});
    EXPECT_EQ(d.outputs, std::vector<std::string>{"y"});
    return;
  }
  ADD_FAILURE() << to_string(plan);
}

}  // namespace
}  // namespace coda::test

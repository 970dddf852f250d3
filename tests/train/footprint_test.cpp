// SPDX-License-Identifier: Apache-2.0
// The memory that training takes, against what training allocates.
#include "train/footprint.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/trainer.h"

namespace coda::train {
namespace {

nn::ModelConfig small() { return nn::load_config(CODA_SOURCE_DIR "/tests/reference/qwen3"); }

class FootprintOf : public testing::TestWithParam<std::pair<DType, StateType>> {};

TEST_P(FootprintOf, parameters_and_states_is_what_the_optimizer_allocates) {
  TrainerOptions options;
  options.type = GetParam().first;
  options.state = GetParam().second;
  const Trainer trainer(small(), options);
  Footprint expected;
  for (const Parameter& parameter : trainer.optimizer().parameters()) {
    expected.parameters += parameter.count();
    expected.weights += parameter.weight.size();
    expected.masters += parameter.master.size();
    expected.moments += parameter.momentum.size() + parameter.variance.size();
    expected.gradients += parameter.gradient.size();
  }
  const Footprint got =
      footprint(small(), trainer.training().plan(), 64, options.type, options.state);
  EXPECT_EQ(got.parameters, expected.parameters);
  EXPECT_EQ(got.weights, expected.weights);
  EXPECT_EQ(got.masters, expected.masters);
  EXPECT_EQ(got.moments, expected.moments);
  EXPECT_EQ(got.gradients, expected.gradients);
  EXPECT_EQ(got.arena, trainer.training().layout(64).bytes);
  EXPECT_EQ(got.total(), got.weights + got.masters + got.moments + got.gradients + got.arena);
}

INSTANTIATE_TEST_SUITE_P(Types, FootprintOf,
                         testing::Values(std::pair(DType::f32, StateType::f32),
                                         std::pair(DType::bf16, StateType::f32),
                                         std::pair(DType::bf16, StateType::model)));

TEST(Footprint, the_plan_is_the_one_that_is_trained) {
  const TrainerOptions options;
  const Trainer trainer(small(), options);
  EXPECT_EQ(to_string(training_plan(small(), options)), to_string(trainer.training().plan()));
}

TEST(Footprint, the_peak_lists_tensors_of_all_layers_together_and_fills_the_arena) {
  nn::ModelConfig config = small();
  const rewrite::Plan plan = training_plan(config, {});
  const execute::Layout layout = execute::lay_out(plan, 512, DType::f32);
  const std::vector<TensorBytes> tensors = peak_tensors(plan, layout);
  size_t bytes = 0;
  int residuals = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bytes += tensors[i].bytes;
    EXPECT_GE(tensors[i > 0 ? i - 1 : 0].bytes, tensors[i].bytes);
    if (tensors[i].name == "attention_residual") residuals = tensors[i].count;
    EXPECT_NE(tensors[i].name[0], '%');
    EXPECT_NE(tensors[i].name.substr(0, 5), "layer");
  }
  EXPECT_EQ(residuals, config.layers);
  EXPECT_EQ(bytes, execute::peak(plan, layout).bytes);
  EXPECT_LE(bytes, layout.bytes);
}

TEST(Footprint, twice_the_tokens_take_twice_the_saved_activations) {
  const auto residual = [&](int64_t tokens) {
    for (const TensorBytes& tensor :
         footprint(small(), training_plan(small(), {}), tokens, DType::f32, StateType::f32).peak)
      if (tensor.name == "attention_residual") return tensor.bytes;
    return size_t{0};
  };
  EXPECT_EQ(residual(512), 2 * 4 * 512 * 40);  // two layers of 40 columns
  EXPECT_EQ(residual(1024), 2 * residual(512));
}

TEST(Footprint, sizes_that_64_bits_do_not_hold_are_refused) {
  nn::ModelConfig config = small();
  const rewrite::Plan plan = training_plan(config, {});
  EXPECT_THROW(footprint(config, plan, int64_t{1} << 61, DType::f32, StateType::f32), Error);
}

}  // namespace
}  // namespace coda::train

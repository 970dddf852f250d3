// SPDX-License-Identifier: Apache-2.0
// Training steps: every counted token weighs the same however it was batched, and float32 masters
// keep updates that the weights' type cannot show.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/convert.h"
#include "nn/config.h"
#include "support/folder.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;

nn::ModelConfig small_config() {
  return nn::parse_config(R"({
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256,
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": true, "hidden_act": "silu", "rope_theta": 10000.0})");
}

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    std::ofstream text(path());
    for (unsigned i = 0; i < 400; ++i) text << "line " << (i * 7919U) % 977U << " of a text\n";
  }

  std::string path() const { return (folder_ / "text").string(); }
  Data data(int64_t sequences, int64_t micro_batches) const {
    DataOptions options;
    options.path = path();
    options.sequences = sequences;
    options.micro_batches = micro_batches;
    options.length = 12;
    return Data(options);
  }

  const test::Folder home_;
  const fs::path folder_ = home_.path();
};

TEST_F(TrainerTest, micro_batches_make_the_step_of_one_batch) {
  TrainerOptions options;
  options.threads = 1;
  StepResult first;
  for (int64_t micro : {1, 2, 6}) {
    Trainer trainer(small_config(), options);
    trainer.initialize(7);
    const Data batches = data(6 / micro, micro);
    StepResult result;
    for (int64_t step = 0; step < 3; ++step) result = trainer.step(batches, step, micro, 0.01);
    EXPECT_EQ(result.tokens, 6 * 12);
    if (micro == 1) first = result;
    EXPECT_NEAR(result.loss, first.loss, 1e-5);
    EXPECT_NEAR(result.gradient_norm, first.gradient_norm, 1e-4 * first.gradient_norm);
  }
  EXPECT_GT(first.loss, 3);
}

TEST_F(TrainerTest, held_out_loss_does_not_depend_on_the_batch) {
  TrainerOptions options;
  options.threads = 1;
  Trainer trainer(small_config(), options);
  trainer.initialize(7);
  const double one = trainer.held_out_loss(data(1, 1), 1000);
  EXPECT_NEAR(one, std::log(256), 0.3);
  for (int64_t sequences : {2, 3, 7})  // the last batch is filled with ignored tokens
    EXPECT_NEAR(trainer.held_out_loss(data(sequences, 2), 1000), one, 1e-5) << sequences;
}

/// 100 updates of 2^-10 to a norm's weight of 1: in bf16 none of them would change it.
TEST(OptimizerTest, masters_keep_what_weights_in_bf16_cannot_show) {
  OptimizerOptions options;
  options.clip = 0;
  Optimizer optimizer(small_config(), DType::bf16, StateType::f32, options, 1);
  Parameter* norm = nullptr;
  for (Parameter& parameter : optimizer.parameters())
    if (parameter.spec.role == nn::Role::final_norm) norm = &parameter;
  ASSERT_NE(norm, nullptr);
  optimizer.set(*norm, std::vector<float>(16, 1));
  for (int64_t step = 0; step < 100; ++step) {
    auto* gradient = reinterpret_cast<float*>(norm->gradient.data());
    for (int j = 0; j < 16; ++j) gradient[j] = -1;  // Adam then moves by the rate
    optimizer.step(step, 0x1p-10);
  }
  for (int j = 0; j < 16; ++j) {
    const float master = reinterpret_cast<const float*>(norm->master.data())[j];
    EXPECT_NEAR(master, 1 + 100 * 0x1p-10, 1e-5);
    const Bf16 weight = reinterpret_cast<const Bf16*>(norm->weight.data())[j];
    EXPECT_EQ(to_f32(weight), to_f32(to_bf16(master)));
  }
}

}  // namespace
}  // namespace coda::train

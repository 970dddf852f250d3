// SPDX-License-Identifier: Apache-2.0
// Training with recomputation: less memory and the same bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/folder.h"
#include "train/trainer.h"

namespace coda::train {
namespace {

nn::ModelConfig small(int64_t layers) {
  nn::ModelConfig config;
  config.hidden = 32, config.ffn = 96, config.layers = layers;
  config.heads = config.key_heads = 2, config.head_size = 16;
  config.vocabulary = 256, config.max_positions = 64;
  config.norm_eps = 1e-5, config.attention_scale = 0.25;
  config.windows.assign(static_cast<size_t>(layers), 0);
  return config;
}

class RecomputeTest : public ::testing::Test {
 protected:
  RecomputeTest() {
    std::ofstream text(folder_ / "text");
    for (unsigned i = 0; i < 1000; ++i) text << "line " << (i * 7919U) % 977U << " of a text\n";
  }

  const test::Folder home_;
  const std::filesystem::path folder_ = home_.path();
};

TEST_F(RecomputeTest, losses_and_parameters_are_the_same_bits) {
  DataOptions options;
  options.path = (folder_ / "text").string();
  options.sequences = 2, options.length = 48, options.micro_batches = 2;
  const Data data(options);
  for (const DType type : {DType::f32, DType::bf16}) {
    TrainerOptions training;
    training.type = type;
    training.threads = 2;
    training.chunk_rows = 40;
    Trainer kept(small(8), training);
    training.recompute = true;
    Trainer again(small(8), training);
    kept.initialize(3), again.initialize(3);
    for (int64_t step = 0; step < 4; ++step) {
      const StepResult want = kept.step(data, step, 2, 1e-2), got = again.step(data, step, 2, 1e-2);
      EXPECT_TRUE(std::isfinite(want.loss));
      EXPECT_EQ(std::bit_cast<uint64_t>(got.loss), std::bit_cast<uint64_t>(want.loss)) << step;
      EXPECT_EQ(std::bit_cast<uint64_t>(got.gradient_norm),
                std::bit_cast<uint64_t>(want.gradient_norm))
          << step;
    }
    EXPECT_LT(2 * again.training().layout(4096).bytes, kept.training().layout(4096).bytes);
  }
}

TEST_F(RecomputeTest, a_model_of_one_layer_has_nothing_to_make_again) {
  TrainerOptions training;
  training.recompute = true;
  const Trainer trainer(small(1), training);
  training.recompute = false;
  EXPECT_EQ(trainer.training().plan().steps.size(),
            Trainer(small(1), training).training().plan().steps.size());
}

}  // namespace
}  // namespace coda::train

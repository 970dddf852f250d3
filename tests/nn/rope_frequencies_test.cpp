// SPDX-License-Identifier: Apache-2.0
// Frequencies against those of transformers, computed there in float64 and stored as float32: one
// rounding may lie between. Every *.json of tests/reference/rope is a case.
#include "nn/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "train/safetensors.h"

namespace coda::nn {
namespace {

const std::string kReference = CODA_SOURCE_DIR "/tests/reference/";

void expect_frequencies(const train::Safetensors& file, const std::string& name, const Rope& rope,
                        int64_t head_size) {
  const std::vector<float> expected = train::floats_of(file.at("inv_freq." + name));
  const std::vector<double> frequencies = rope_frequencies(rope, head_size);
  ASSERT_EQ(frequencies.size(), expected.size()) << name;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(frequencies[i], expected[i], 0x1p-24 * expected[i]) << name << ", pair " << i;
  const float factor = train::floats_of(file.at("attention_factor." + name))[0];
  EXPECT_NEAR(rope.attention_factor, factor, 0x1p-24 * factor) << name;
}

TEST(RopeFrequencies, AreThoseOfTransformers) {
  const auto file = train::Safetensors::open(kReference + "rope/reference.safetensors");
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kReference + "rope")) {
    if (entry.path().extension() != ".json") continue;
    const ModelConfig config = load_config(entry.path().string());
    expect_frequencies(file, entry.path().stem().string(), config.rope, config.head_size);
    ++cases;
  }
  EXPECT_EQ(cases, 11);
}

class ModelFrequencies : public ::testing::TestWithParam<const char*> {};

TEST_P(ModelFrequencies, AreThoseOfTransformers) {
  const std::string folder = kReference + GetParam();
  const auto file = train::Safetensors::open(folder + "/reference.safetensors");
  const ModelConfig config = load_config(folder);
  int kinds = 0;
  for (const auto& [kind, rope] : {std::pair("full_attention", config.rope),
                                   std::pair("sliding_attention", config.local_rope)}) {
    if (!file.find(std::string("inv_freq.") + kind)) continue;
    expect_frequencies(file, kind, rope, config.head_size);
    ++kinds;
  }
  EXPECT_GT(kinds, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelFrequencies,
                         ::testing::Values("llama3", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3"));

// Values by hand, so that reader and formula cannot be wrong together.
TEST(RopeFrequencies, OfLlama3ByHand) {
  Rope rope{.theta = 500000,
            .scaling = Rope::Scaling::llama3,
            .factor = 32,
            .original_positions = 8192,
            .low_frequency_factor = 1,
            .high_frequency_factor = 4};
  const std::vector<double> scaled = rope_frequencies(rope, 64);
  rope.scaling = Rope::Scaling::none;
  const std::vector<double> plain = rope_frequencies(rope, 64);
  ASSERT_EQ(scaled.size(), 32u);
  EXPECT_DOUBLE_EQ(plain[16], 1 / std::sqrt(500000.0));
  for (size_t j = 0; j < 32; ++j) {
    const double length = 2 * M_PI / plain[j];
    if (length < 2048) {
      EXPECT_EQ(scaled[j], plain[j]) << j;
    } else if (length > 8192) {
      EXPECT_EQ(scaled[j], plain[j] / 32) << j;
    } else {
      EXPECT_GT(scaled[j], plain[j] / 32) << j;
      EXPECT_LT(scaled[j], plain[j]) << j;
    }
  }
}

TEST(RopeFrequencies, YarnWithinAnEmptyRangeIsAStep) {
  const Rope rope{.theta = 10000,
                  .scaling = Rope::Scaling::yarn,
                  .factor = 4,
                  .original_positions = 6,
                  .beta_fast = 32,
                  .beta_slow = 1};
  const std::vector<double> frequencies = rope_frequencies(rope, 64);
  EXPECT_EQ(frequencies[0], 1);
  for (size_t j = 1; j < 32; ++j)
    EXPECT_DOUBLE_EQ(frequencies[j], std::pow(10000, -static_cast<double>(j) / 32) / 4) << j;
}

}  // namespace
}  // namespace coda::nn

// SPDX-License-Identifier: Apache-2.0
// The table of names and shapes against the files that transformers wrote.
#include "nn/names.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/safetensors.h"

namespace coda::nn {
namespace {

class Names : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = std::string(CODA_SOURCE_DIR "/tests/reference/") + GetParam();
};

TEST_P(Names, AreThoseOfTransformers) {
  const auto model = train::Safetensors::open(folder_);
  const auto reference = train::Safetensors::open(folder_ + "/reference.safetensors");
  const std::vector<ParameterSpec> list = parameters(load_config(folder_));
  std::set<std::string> names;
  for (const ParameterSpec& spec : list) {
    std::vector<int64_t> shape = {spec.rows};
    if (spec.columns != 0) shape.push_back(spec.columns);
    EXPECT_NO_THROW(model.at(spec.name, shape)) << spec.name;
    EXPECT_NO_THROW(reference.at("grad." + spec.name, shape)) << spec.name;
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
  }
  EXPECT_EQ(list.size(), model.tensors().size());
}

INSTANTIATE_TEST_SUITE_P(Models, Names,
                         ::testing::Values("llama3", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3"));

TEST(Roles, TellTheNormsApart) {
  const auto role_of = [](const char* model, const std::string& name) {
    for (const ParameterSpec& spec :
         parameters(load_config(std::string(CODA_SOURCE_DIR "/tests/reference/") + model)))
      if (spec.name == "model.layers.1." + name + ".weight" && spec.layer == 1) return spec.role;
    ADD_FAILURE() << name;
    return Role::embedding;
  };
  EXPECT_EQ(role_of("llama", "post_attention_layernorm"), Role::ffn_norm);
  EXPECT_EQ(role_of("gemma3", "post_attention_layernorm"), Role::attention_output_norm);
  EXPECT_EQ(role_of("gemma3", "pre_feedforward_layernorm"), Role::ffn_norm);
  EXPECT_EQ(role_of("gemma3", "post_feedforward_layernorm"), Role::ffn_output_norm);
}

TEST(Parameters, OfAModelOf7BillionAddUp) {
  ModelConfig config = load_config(CODA_SOURCE_DIR "/tests/reference/llama");
  config.hidden = 4096;
  config.ffn = 11008;
  config.layers = 32;
  config.heads = config.key_heads = 32;
  config.head_size = 128;
  config.vocabulary = 32000;
  config.windows.assign(32, 0);
  int64_t count = 0;
  for (const ParameterSpec& spec : parameters(config))
    count += spec.rows * std::max<int64_t>(spec.columns, 1);
  EXPECT_EQ(count, 6'738'415'616);
}

TEST(Parameters, OfNoModelAreRefused) {
  ModelConfig config = load_config(CODA_SOURCE_DIR "/tests/reference/llama");
  config.key_heads = 3;
  try {
    parameters(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "model: key 'num_key_value_heads': expected a divisor of num_attention_heads = 4, "
                 "got 3; fix: correct one of the two");
  }
}

}  // namespace
}  // namespace coda::nn

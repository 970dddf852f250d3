// SPDX-License-Identifier: Apache-2.0
// What the config.json of known models says: those that transformers wrote for tests/reference, and
// the published ones of each family, in the keys of their time.
#include "nn/config.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace coda::nn {
namespace {

using Scaling = Rope::Scaling;

ModelConfig reference(const std::string& name) {
  return load_config(CODA_SOURCE_DIR "/tests/reference/" + name);
}

TEST(ReferenceConfig, OfLlama3) {
  ModelConfig expected;
  expected.family = Family::llama;
  expected.hidden = 48;
  expected.ffn = 80;
  expected.layers = 2;
  expected.heads = 4;
  expected.key_heads = 2;
  expected.head_size = 16;
  expected.vocabulary = 128;
  expected.max_positions = 512;
  expected.norm_eps = 1e-5;
  expected.attention_scale = 0.25;
  expected.windows = {0, 0};
  expected.rope = {.theta = 500000,
                   .scaling = Scaling::llama3,
                   .factor = 8,
                   .original_positions = 64,
                   .low_frequency_factor = 1,
                   .high_frequency_factor = 4};
  expected.local_rope = expected.rope;
  expected.kept = {{"bos_token_id", "1"}, {"eos_token_id", "2"}, {"use_cache", "true"}};
  EXPECT_EQ(reference("llama3"), expected);
}

TEST(ReferenceConfig, OfLlama) {
  const ModelConfig config = reference("llama");
  EXPECT_EQ(config.head_size, 16);
  EXPECT_EQ(config.key_heads, 4);
  EXPECT_EQ(config.rope, Rope{});
  EXPECT_FALSE(config.tied_embeddings);
}

TEST(ReferenceConfig, OfMistral) {
  const ModelConfig config = reference("mistral");
  EXPECT_EQ(config.family, Family::mistral);
  EXPECT_EQ(config.head_size, 12);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{7, 7}));
  EXPECT_DOUBLE_EQ(config.attention_scale, 1 / std::sqrt(12.0));
}

TEST(ReferenceConfig, OfQwen2) {
  const ModelConfig config = reference("qwen2");
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(config.rope.scaling, Scaling::yarn);
  EXPECT_EQ(config.rope.original_positions, 128);
  EXPECT_EQ(config.rope.beta_fast, 32);
  EXPECT_EQ(config.rope.beta_slow, 1);
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, 1 + 0.1 * std::log(4.0));
}

TEST(ReferenceConfig, OfQwen3) {
  const ModelConfig config = reference("qwen3");
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.norm_unit_offset);
  EXPECT_EQ(config.query_columns(), 64);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{0, 9}));
}

TEST(ReferenceConfig, OfGemma2) {
  const ModelConfig config = reference("gemma2");
  EXPECT_TRUE(config.norm_unit_offset);
  EXPECT_TRUE(config.sandwich_norms);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.activation, Activation::gelu_tanh);
  EXPECT_EQ(config.attention_softcap, 4);
  EXPECT_EQ(config.logit_softcap, 6);
  EXPECT_DOUBLE_EQ(config.attention_scale, 1 / std::sqrt(24.0));
  EXPECT_DOUBLE_EQ(config.embedding_scale, std::sqrt(48.0));
  EXPECT_EQ(config.windows, (std::vector<int64_t>{6, 0}));
  EXPECT_EQ(config.padding_token, 0);
}

TEST(ReferenceConfig, OfGemma3) {
  const ModelConfig config = reference("gemma3");
  EXPECT_TRUE(config.qk_norm);
  EXPECT_TRUE(config.sandwich_norms);
  EXPECT_EQ(config.attention_softcap, 0);
  EXPECT_EQ(config.logit_softcap, 0);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{8, 0, 8}));
  EXPECT_EQ(config.rope, (Rope{.theta = 1e6, .scaling = Scaling::linear, .factor = 4}));
  EXPECT_EQ(config.local_rope, Rope{.theta = 1e4});
  EXPECT_EQ(config.rope_of(0), config.local_rope);
  EXPECT_EQ(config.rope_of(1), config.rope);
}

/// Published ones, with what transformers 4 wrote into them.
constexpr const char* kLlama2 = R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "pad_token_id": 0, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
  "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true,
  "vocab_size": 32000})";

constexpr const char* kLlama3 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {
    "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})";

constexpr const char* kMistral = R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0",
  "use_cache": true, "vocab_size": 32000})";

constexpr const char* kQwen2 = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896,
  "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768,
  "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
  "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kQwen3 = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
  "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
  "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";

constexpr const char* kGemma2 = R"({"architectures": ["Gemma2ForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
  "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
  "final_logit_softcapping": 30.0, "head_dim": 128, "hidden_act": "gelu_pytorch_tanh",
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 4608, "initializer_range": 0.02,
  "intermediate_size": 36864, "max_position_embeddings": 8192, "model_type": "gemma2",
  "num_attention_heads": 32, "num_hidden_layers": 46, "num_key_value_heads": 16,
  "pad_token_id": 0, "query_pre_attn_scalar": 144, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
  "sliding_window": 4096, "sliding_window_size": 4096, "torch_dtype": "bfloat16",
  "transformers_version": "4.42.0.dev0", "use_cache": true, "vocab_size": 256000})";

constexpr const char* kGemma3 = R"({"architectures": ["Gemma3ForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null,
  "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 106],
  "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 1152, "initializer_range": 0.02, "intermediate_size": 6912,
  "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
  "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0,
  "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
  "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512,
  "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
  "use_cache": true, "vocab_size": 262144})";

TEST(PublishedConfig, OfLlama2HasNoKeyForItsBaseAndHeads) {
  const ModelConfig config = parse_config(kLlama2);
  EXPECT_EQ(config.key_heads, 32);
  EXPECT_EQ(config.head_size, 128);
  EXPECT_EQ(config.rope, Rope{});
  EXPECT_EQ(config.storage, DType::f16);
  EXPECT_EQ(config.padding_token, 0);
}

TEST(PublishedConfig, OfLlama3) {
  const ModelConfig config = parse_config(kLlama3);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.storage, DType::bf16);
  EXPECT_EQ(config.rope.factor, 32);
  EXPECT_EQ(config.rope.original_positions, 8192);
  EXPECT_EQ(config.padding_token, -1);
  EXPECT_EQ(config.kept.at("eos_token_id"), "[128001,128008,128009]");
}

TEST(PublishedConfig, OfMistralHasAWindowOnEveryLayer) {
  EXPECT_EQ(parse_config(kMistral).windows, std::vector<int64_t>(32, 4096));
}

TEST(PublishedConfig, OfQwen2NamesAWindowThatIsNotUsed) {
  const ModelConfig config = parse_config(kQwen2);
  EXPECT_EQ(config.windows, std::vector<int64_t>(24, 0));
  EXPECT_EQ(config.rope.theta, 1e6);
}

TEST(PublishedConfig, OfQwen3) {
  const ModelConfig config = parse_config(kQwen3);
  EXPECT_EQ(config.query_columns(), 2048);
  EXPECT_EQ(config.key_columns(), 1024);
}

TEST(PublishedConfig, OfGemma2) {
  const ModelConfig config = parse_config(kGemma2);
  EXPECT_EQ(config.windows.size(), 46u);
  EXPECT_EQ(config.windows[0], 4096);
  EXPECT_EQ(config.windows[1], 0);
  EXPECT_DOUBLE_EQ(config.attention_scale, 1.0 / 12);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.attention_softcap, 50);
  EXPECT_EQ(config.logit_softcap, 30);
}

TEST(PublishedConfig, OfGemma3) {
  const ModelConfig config = parse_config(kGemma3);
  for (size_t i = 0; i < 26; ++i) EXPECT_EQ(config.windows[i], i % 6 == 5 ? 0 : 512) << i;
  EXPECT_EQ(config.rope, Rope{.theta = 1e6});
  EXPECT_EQ(config.local_rope, Rope{.theta = 1e4});
}

class RoundTrip : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundTrip, GivesTheSameModel) {
  const ModelConfig config =
      GetParam()[0] == '{' ? parse_config(GetParam()) : reference(GetParam());
  EXPECT_EQ(parse_config(write_config(config)), config);
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip,
                         ::testing::Values("llama3", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3", "rope/yarn_not_truncated.json",
                                           "rope/yarn_mscale.json", "rope/linear.json", kLlama2,
                                           kLlama3, kMistral, kQwen2, kQwen3, kGemma2, kGemma3));

TEST(WriteConfig, WritesTheKeysOfTransformers4) {
  const auto json = nlohmann::json::parse(write_config(reference("gemma3")));
  EXPECT_EQ(json["model_type"], "gemma3_text");
  EXPECT_EQ(json["architectures"], nlohmann::json::array({"Gemma3ForCausalLM"}));
  EXPECT_EQ(json["rope_theta"], 1e6);
  EXPECT_EQ(json["rope_local_base_freq"], 1e4);
  EXPECT_EQ(json["rope_scaling"], nlohmann::json::parse(R"({"rope_type":"linear","factor":4.0})"));
  EXPECT_EQ(json["query_pre_attn_scalar"], 20);
  EXPECT_EQ(json["layer_types"],
            nlohmann::json::array({"sliding_attention", "full_attention", "sliding_attention"}));
  EXPECT_EQ(json["sliding_window"], 8);
  EXPECT_EQ(json["torch_dtype"], "float32");
}

TEST(WriteConfig, OfAPaddingTokenThatIsNone) {
  ModelConfig config = reference("gemma2");
  config.padding_token = -1;
  EXPECT_EQ(parse_config(write_config(config)), config);
}

struct Unwritable {
  const char* name;
  const char* model;
  void (*change)(ModelConfig&);
  const char* what;
};

void PrintTo(const Unwritable& row, std::ostream* out) { *out << row.name; }

constexpr const char* kLost =
    "write_config: expected a model that the keys of llama can describe, got facts that would be "
    "lost in a config.json; fix: choose the family whose models are like it";

const Unwritable kUnwritable[] = {
    {"llama_with_a_window", "llama", [](ModelConfig& c) { c.windows[0] = 8; }, kLost},
    {"llama_with_a_bias", "llama", [](ModelConfig& c) { c.qkv_bias = true; }, kLost},
    {"llama_with_a_soft_cap", "llama", [](ModelConfig& c) { c.logit_softcap = 30; }, kLost},
    {"llama_with_an_odd_scale", "llama", [](ModelConfig& c) { c.attention_scale = 0.3; }, kLost},
    {"two_windows", "qwen3",
     [](ModelConfig& c) {
       c.windows = {8, 9};
     },
     "write_config: expected a model that the keys of qwen3 can describe, got facts that would be "
     "lost in a config.json; fix: choose the family whose models are like it"},
    {"no_layers", "llama", [](ModelConfig& c) { c.layers = 0; },
     "write_config: key 'num_hidden_layers': expected an integer from 1 to 65536, got 0; fix: "
     "correct the value"},
    {"no_window_per_layer", "llama", [](ModelConfig& c) { c.windows.pop_back(); },
     "write_config: key 'layer_types': expected one for each of 2 layers, got 1; fix: correct the "
     "list"},
    {"infinite_eps", "llama", [](ModelConfig& c) { c.norm_eps = INFINITY; },
     "write_config: key 'rms_norm_eps': expected a number above 0, got inf; fix: correct the "
     "value"},
    {"nan_theta", "llama", [](ModelConfig& c) { c.rope.theta = NAN; },
     "write_config: key 'rope_theta': expected a number above 0, got nan; fix: correct the value"},
    {"stored_as_integers", "llama", [](ModelConfig& c) { c.storage = DType::i32; },
     "write_config: key 'dtype': expected f32, bf16 or f16, got i32; fix: store the model as "
     "these"},
};

class UnwritableTest : public ::testing::TestWithParam<Unwritable> {};

TEST_P(UnwritableTest, IsRefused) {
  ModelConfig config = reference(GetParam().model);
  GetParam().change(config);
  try {
    write_config(config);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), GetParam().what);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, UnwritableTest, ::testing::ValuesIn(kUnwritable),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace coda::nn

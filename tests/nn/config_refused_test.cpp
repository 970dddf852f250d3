// SPDX-License-Identifier: Apache-2.0
// Configs that are refused, each with its whole message. Every row changes one thing of a config
// that is read; that it is read unchanged is a test of its own.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/config.h"

namespace coda::nn {
namespace {

using nlohmann::json;

json reference(const std::string& name) {
  return json::parse(std::ifstream(CODA_SOURCE_DIR "/tests/reference/" + name + "/config.json"));
}

struct Refused {
  const char* name;
  const char* model;
  const char* place;  // a JSON pointer
  const char* value;  // JSON; null: the key is taken away
  const char* what;   // after "config.json: key "
};

void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }

const Refused kRefused[] = {
    // What is missing.
    {"no_model_type", "llama", "/model_type", nullptr,
     "'model_type': expected a text, got no such key; fix: add the key as the model was trained "
     "with"},
    {"no_hidden_size", "llama", "/hidden_size", nullptr,
     "'hidden_size': expected an integer, got no such key; fix: add the key as the model was "
     "trained "
     "with"},
    {"null_vocabulary", "llama", "/vocab_size", "null",
     "'vocab_size': expected an integer, got null; fix: add the key as the model was trained with"},
    {"no_eps", "llama", "/rms_norm_eps", nullptr,
     "'rms_norm_eps': expected a number above 0, got no such key; fix: add the key as the model "
     "was "
     "trained with"},
    {"mistral_without_key_heads", "mistral", "/num_key_value_heads", nullptr,
     "'num_key_value_heads': expected an integer, got no such key; fix: add the key as the model "
     "was "
     "trained with"},
    {"mistral_without_a_window", "mistral", "/sliding_window", nullptr,
     "'sliding_window': expected a value or null, got no such key; fix: add the key as the model "
     "was "
     "trained with"},
    {"qwen3_without_a_head_size", "qwen3", "/head_dim", nullptr,
     "'head_dim': expected an integer, got no such key; fix: add the key as the model was trained "
     "with"},
    {"gemma2_without_a_soft_cap", "gemma2", "/final_logit_softcapping", nullptr,
     "'final_logit_softcapping': expected a value or null, got no such key; fix: add the key as "
     "the "
     "model was trained with"},
    {"gemma2_without_a_scale", "gemma2", "/query_pre_attn_scalar", nullptr,
     "'query_pre_attn_scalar': expected an integer, got no such key; fix: add the key as the model "
     "was trained with"},
    // What is of the wrong type.
    {"family_a_number", "llama", "/model_type", "3",
     "'model_type': expected a text, got 3; fix: correct the value"},
    {"size_a_text", "llama", "/hidden_size", "\"64\"",
     "'hidden_size': expected an integer, got \"64\"; fix: correct the value"},
    {"size_a_real", "llama", "/hidden_size", "64.0",
     "'hidden_size': expected an integer, got 64.0; fix: correct the value"},
    {"size_beyond_63_bits", "llama", "/hidden_size", "9223372036854775808",
     "'hidden_size': expected an integer, got 9223372036854775808; fix: correct the value"},
    {"eps_a_text", "llama", "/rms_norm_eps", "\"1e-5\"",
     "'rms_norm_eps': expected a number above 0, got \"1e-5\"; fix: correct the value"},
    {"eps_zero", "llama", "/rms_norm_eps", "0",
     "'rms_norm_eps': expected a number above 0, got 0; fix: correct the value"},
    {"tied_a_number", "llama", "/tie_word_embeddings", "1",
     "'tie_word_embeddings': expected true or false, got 1; fix: correct the value"},
    {"rope_a_list", "llama", "/rope_parameters", "[1]",
     "'rope_parameters': expected an object, got [1]; fix: correct the value"},
    {"factor_negative", "llama3", "/rope_parameters/factor", "-8",
     "'rope_parameters': key 'factor': expected a number above 0, got -8; fix: correct the value"},
    {"layer_types_a_text", "qwen3", "/layer_types", "\"full_attention\"",
     "'layer_types': expected a list of num_hidden_layers = 2 texts, got \"full_attention\"; fix: "
     "correct the list"},
    // Sizes that make no model.
    {"hidden_negative", "llama", "/hidden_size", "-64",
     "'hidden_size': expected an integer from 1 to 2147483647, got -64; fix: correct the value"},
    {"no_layers", "llama", "/num_hidden_layers", "0",
     "'num_hidden_layers': expected an integer from 1 to 65536, got 0; fix: correct the value"},
    {"layers_without_end", "gemma3", "/num_hidden_layers", "1152921504606846976",
     "'num_hidden_layers': expected an integer from 1 to 65536, got 1152921504606846976; fix: "
     "correct the value"},
    {"no_heads", "llama", "/num_attention_heads", "0",
     "'num_attention_heads': expected an integer from 1 to 2147483647, got 0; fix: correct the "
     "value"},
    {"key_heads_that_do_not_divide", "llama3", "/num_key_value_heads", "3",
     "'num_key_value_heads': expected a divisor of num_attention_heads = 4, got 3; fix: correct "
     "one "
     "of the two"},
    {"more_key_heads_than_heads", "llama3", "/num_key_value_heads", "8",
     "'num_key_value_heads': expected a divisor of num_attention_heads = 4, got 8; fix: correct "
     "one "
     "of the two"},
    {"odd_head_size", "llama3", "/head_dim", "15",
     "'head_dim': expected an even number, of which rotation makes pairs, got 15; fix: correct the "
     "value"},
    {"heads_too_wide", "llama3", "/head_dim", "2147483646",
     "'head_dim': expected num_attention_heads * head_dim of at most 2147483647, got 8589934584; "
     "fix: correct one of the two"},
    {"padding_token_too_large", "llama", "/pad_token_id", "101",
     "'pad_token_id': expected a token below vocab_size = 101, got 101; fix: correct the value"},
    {"padding_token_too_small", "llama", "/pad_token_id", "-102",
     "'pad_token_id': expected a token below vocab_size = 101, got -102; fix: correct the value"},
    {"scale_negative", "gemma2", "/query_pre_attn_scalar", "-24",
     "'query_pre_attn_scalar': expected an integer of at least 1, got -24; fix: correct the value"},
    {"layer_types_too_few", "gemma3", "/layer_types", "[\"full_attention\"]",
     "'layer_types': expected a list of num_hidden_layers = 3 texts, got 1; fix: correct the list"},
    // What is there but not computed.
    {"family_unknown", "llama", "/model_type", "\"gpt2\"",
     "'model_type': expected one of llama, mistral, qwen2, qwen3, gemma2, gemma3_text, got "
     "\"gpt2\"; "
     "fix: use a model of one of these families"},
    {"gemma3_with_pictures", "gemma3", "/model_type", "\"gemma3\"",
     "'model_type': expected one of llama, mistral, qwen2, qwen3, gemma2, gemma3_text, got "
     "\"gemma3\"; fix: take the text_config of the model for its config.json"},
    {"classifier", "llama", "/architectures", "[\"LlamaForSequenceClassification\"]",
     "'architectures': expected [\"LlamaForCausalLM\"], got [\"LlamaForSequenceClassification\"]; "
     "fix: use a causal language model with its head"},
    {"bias_on_every_projection", "llama", "/attention_bias", "true",
     "'attention_bias': expected false, got true; fix: use a model without it"},
    {"bias_in_the_mlp", "llama", "/mlp_bias", "true",
     "'mlp_bias': expected false, got true; fix: use a model without it"},
    {"qwen3_with_a_bias", "qwen3", "/attention_bias", "true",
     "'attention_bias': expected false, got true; fix: use a model without it"},
    {"dropout", "llama", "/attention_dropout", "0.1",
     "'attention_dropout': expected 0.0, got 0.1; fix: set it to 0.0 to train without dropout"},
    {"both_ways", "gemma2", "/use_bidirectional_attention", "true",
     "'use_bidirectional_attention': expected false, got true; fix: use a model without it"},
    {"activation_relu", "llama", "/hidden_act", "\"relu\"",
     "'hidden_act': expected \"silu\" or \"gelu_pytorch_tanh\", got \"relu\"; fix: use a model "
     "with "
     "one of these"},
    {"activation_exact_gelu", "gemma2", "/hidden_activation", "\"gelu\"",
     "'hidden_activation': expected \"silu\" or \"gelu_pytorch_tanh\", got \"gelu\"; fix: use a "
     "model "
     "with one of these"},
    {"two_activations", "gemma2", "/hidden_act", "\"silu\"",
     "'hidden_act': expected \"gelu_pytorch_tanh\", got \"silu\"; fix: remove the key"},
    {"part_of_a_head_rotated", "llama", "/partial_rotary_factor", "0.5",
     "'partial_rotary_factor': expected 1.0, got 0.5; fix: use a model whose heads are rotated as "
     "a "
     "whole"},
    {"part_of_a_head_rotated_within", "llama", "/rope_parameters/partial_rotary_factor", "0.25",
     "'rope_parameters': key 'partial_rotary_factor': expected 1.0, got 0.25; fix: use a model "
     "whose "
     "heads are rotated as a whole"},
    {"stored_as_fp8", "llama", "/dtype", "\"float8_e4m3fn\"",
     "'dtype': expected \"float32\", \"bfloat16\" or \"float16\", got \"float8_e4m3fn\"; fix: "
     "store "
     "the model as one of these"},
    {"two_types", "llama", "/torch_dtype", "\"bfloat16\"",
     "'dtype': expected that of torch_dtype, \"bfloat16\", got \"float32\"; fix: remove one of the "
     "two"},
    {"experts", "llama", "/num_local_experts", "8",
     "'num_local_experts': expected a key that coda knows for llama, got 8; fix: remove the key if "
     "it changes no number of the model"},
    {"quantised", "llama", "/quantization_config", "{\"bits\": 4}",
     "'quantization_config': expected a key that coda knows for llama, got {\"bits\":4}; fix: "
     "remove "
     "the key if it changes no number of the model"},
    {"key_unknown", "qwen2", "/residual_multiplier", "0.22",
     "'residual_multiplier': expected a key that coda knows for qwen2, got 0.22; fix: remove the "
     "key "
     "if it changes no number of the model"},
    {"llama_with_a_soft_cap", "llama", "/final_logit_softcapping", "30.0",
     "'final_logit_softcapping': expected a key that coda knows for llama, got 30.0; fix: remove "
     "the "
     "key if it changes no number of the model"},
    {"gemma3_with_a_soft_cap_of_scores", "gemma3", "/attn_logit_softcapping", "50.0",
     "'attn_logit_softcapping': expected null, got 50.0; fix: use a model without it"},
    // Windows.
    {"llama_with_a_window", "llama", "/sliding_window", "8",
     "'sliding_window': expected a key that coda knows for llama, got 8; fix: remove the key if it "
     "changes no number of the model"},
    {"layer_type_unknown", "qwen3", "/layer_types", "[\"full_attention\", \"chunked_attention\"]",
     "'layer_types': expected \"full_attention\" or \"sliding_attention\", got "
     "\"chunked_attention\"; fix: use a model whose layers are of these kinds"},
    {"mistral_with_mixed_layers", "mistral", "/layer_types",
     "[\"full_attention\", \"sliding_attention\"]",
     "'layer_types': expected what the family's other keys say of windows, got "
     "[\"full_attention\",\"sliding_attention\"]; fix: remove the list"},
    {"window_that_is_not_used", "qwen3", "/use_sliding_window", "false",
     "'layer_types': expected what the family's other keys say of windows, got "
     "[\"full_attention\",\"sliding_attention\"]; fix: remove the list"},
    {"window_of_nothing", "mistral", "/sliding_window", "0",
     "'sliding_window': expected an integer of at least 1, got 0; fix: add the window of these "
     "layers"},
    {"window_missing", "gemma2", "/sliding_window", nullptr,
     "'sliding_window': expected an integer of at least 1, got none; fix: add the window of these "
     "layers"},
    {"window_too_large", "mistral", "/sliding_window", "2147483648",
     "'sliding_window': expected an integer from 1 to 2147483647, got 2147483648; fix: correct the "
     "value"},
    {"two_windows", "gemma2", "/sliding_window_size", "7",
     "'sliding_window_size': expected 6, got 7; fix: remove the key"},
    // RoPE.
    {"rope_dynamic", "llama3", "/rope_parameters/rope_type", "\"dynamic\"",
     "'rope_parameters': key 'rope_type': expected \"default\", \"linear\", \"llama3\" or "
     "\"yarn\", "
     "got \"dynamic\"; fix: use a model with one of these"},
    {"rope_of_two_types", "llama3", "/rope_parameters/type", "\"linear\"",
     "'rope_parameters': key 'type': expected that of rope_type, \"llama3\", got \"linear\"; fix: "
     "remove one of the two"},
    {"rope_without_a_factor", "llama3", "/rope_parameters/factor", nullptr,
     "'rope_parameters': key 'factor': expected a number above 0, got no such key; fix: add the "
     "key "
     "as the model was trained with"},
    {"rope_of_two_bases", "llama3", "/rope_theta", "10000.0",
     "'rope_parameters': key 'rope_theta': expected that of the key outside, 10000.0, got "
     "500000.0; "
     "fix: remove one of the two"},
    {"rope_in_two_places", "llama3", "/rope_scaling", "{\"type\": \"linear\", \"factor\": 2.0}",
     "'rope_scaling': expected one of rope_scaling and rope_parameters, got both; fix: remove one "
     "of "
     "the two"},
    {"rope_key_of_another_type", "llama", "/rope_parameters/factor", "2.0",
     "'rope_parameters': key 'factor': expected a key that \"default\" has, got 2.0; fix: remove "
     "the "
     "key if it changes no number of the model"},
    {"rope_frequencies_in_wrong_order", "llama3", "/rope_parameters/high_freq_factor", "1.0",
     "'high_freq_factor': expected a number above low_freq_factor, got 1; fix: correct the value"},
    {"rope_of_no_original_length", "llama3", "/rope_parameters/original_max_position_embeddings",
     "0",
     "'original_max_position_embeddings': expected an integer from 1 to 2147483647, got 0; fix: "
     "correct the value"},
    {"yarn_of_base_1", "qwen2", "/rope_parameters/rope_theta", "1.0",
     "'rope_theta': expected a base other than 1 for yarn, got 1; fix: correct the value"},
    {"local_base_outside_gemma3", "gemma2", "/rope_local_base_freq", "10000.0",
     "'rope_local_base_freq': expected a key that coda knows for gemma2, got 10000.0; fix: remove "
     "the key if it changes no number of the model"},
    {"gemma3_with_one_rope", "gemma3", "/rope_parameters",
     "{\"rope_type\": \"default\", \"rope_theta\": 1000000.0}",
     "'rope_parameters': key 'rope_theta': expected the keys full_attention and sliding_attention "
     "alone, got 1000000.0; fix: write one object for each kind of layer"},
    {"gemma3_with_local_scaling", "gemma3", "/rope_parameters/sliding_attention",
     "{\"rope_type\": \"linear\", \"rope_theta\": 10000.0, \"factor\": 2.0}",
     "'rope_parameters': expected \"default\" for sliding_attention, got "
     "{\"factor\":2.0,\"rope_type\":\"linear\"}; fix: use a model with one of these"},
    {"ropes_by_layer_outside_gemma3", "qwen3", "/rope_parameters",
     "{\"full_attention\": {\"rope_type\": \"default\"}}",
     "'rope_parameters': key 'full_attention': expected a key that \"default\" has, got "
     "{\"rope_type\":\"default\"}; fix: remove the key if it changes no number of the model"},
};

class RefusedTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedTest, WithItsMessage) {
  json config = reference(GetParam().model);
  EXPECT_NO_THROW(parse_config(config.dump()));
  const json::json_pointer place(GetParam().place);
  if (GetParam().value)
    config[place] = json::parse(GetParam().value);
  else
    config[place.parent_pointer()].erase(place.back());
  try {
    parse_config(config.dump());
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), std::string("config.json: key ") + GetParam().what);
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, RefusedTest, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

std::string refusal(const std::string& text) {
  try {
    parse_config(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing refused";
}

TEST(RefusedText, ThatIsNoObject) {
  EXPECT_EQ(refusal(""),
            "config.json: expected valid JSON, got parse error at line 1, column 1: syntax error "
            "while parsing value - unexpected end of input; expected '[', '{', or a literal; fix: "
            "write the file again");
  EXPECT_EQ(refusal("[]"),
            "config.json: expected a JSON object, got []; fix: write the file again");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "model_type": "qwen2"})"),
            "config.json: expected every key once, got two of \"model_type\"; fix: write the file "
            "again");
  EXPECT_EQ(refusal(R"({"rms_norm_eps": 1e999})"),
            "config.json: expected valid JSON, got number overflow parsing '1e999'; fix: write the "
            "file again");
  EXPECT_EQ(
      refusal(std::string(1 << 20, '[')),
      "config.json: expected JSON of at most 16 levels, got more of them; fix: write the file "
      "again");
}

TEST(RefusedText, OfLlamaWhoseHeadsDoNotDivide) {
  json config = reference("llama");
  config.erase("head_dim");
  config["hidden_size"] = 66;
  EXPECT_EQ(
      refusal(config.dump()),
      "config.json: key 'num_attention_heads': expected a divisor of hidden_size = 66, got 4; "
      "fix: correct one of the two, or add head_dim");
}

TEST(RefusedText, OfGemma3WithTwoPatterns) {
  json config = reference("gemma3");
  config.erase("layer_types");
  EXPECT_EQ(parse_config(config.dump()).windows, (std::vector<int64_t>{8, 8, 8}));
  config["sliding_window_pattern"] = 2;
  EXPECT_EQ(
      refusal(config.dump()),
      "config.json: key '_sliding_window_pattern': expected that of sliding_window_pattern, got "
      "6; fix: write a list of layer_types");
  config.erase("_sliding_window_pattern");
  EXPECT_EQ(parse_config(config.dump()).windows, (std::vector<int64_t>{8, 0, 8}));
  config["sliding_window_pattern"] = 0;
  EXPECT_EQ(refusal(config.dump()),
            "config.json: key 'sliding_window_pattern': expected a number of layers, got 0; fix: "
            "correct the value");
}

TEST(RefusedText, OfQwenThatDoesNotSayWhereWindowsBegin) {
  json config = reference("qwen3");
  config.erase("layer_types");
  EXPECT_EQ(parse_config(config.dump()).windows, (std::vector<int64_t>{0, 9}));
  config.erase("max_window_layers");
  EXPECT_EQ(refusal(config.dump()),
            "config.json: key 'max_window_layers': expected the number of layers without a window, "
            "got no such key; fix: add the key");
}

TEST(RefusedFile, ThatIsNotThere) {
  try {
    load_config("/nowhere/config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "/nowhere/config.json: expected a file that can be read, got No such file or "
                 "directory; fix: check the path");
    EXPECT_EQ(error.kind(), ErrorKind::io);
  }
}

TEST(PassedOver, KeysWithoutAMeaningAndNulls) {
  json config = reference("llama");
  const ModelConfig plain = parse_config(config.dump());
  config["transformers_version"] = "4.0.0";
  config["num_experts"] = nullptr;
  config["torchscript"] = true;
  config["pretraining_tp"] = 2;
  EXPECT_EQ(parse_config(config.dump()), plain);
}

TEST(PaddingToken, CountsFromTheEndAsInPyTorch) {
  json config = reference("llama");
  config["pad_token_id"] = -1;
  EXPECT_EQ(parse_config(config.dump()).padding_token, 100);
  config["pad_token_id"] = nullptr;
  EXPECT_EQ(parse_config(config.dump()).padding_token, -1);
  json gemma = reference("gemma2");
  gemma.erase("pad_token_id");
  EXPECT_EQ(parse_config(gemma.dump()).padding_token, 0);
}

}  // namespace
}  // namespace coda::nn

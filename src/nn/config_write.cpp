// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "nn/config_parts.h"

namespace coda::nn {
namespace {

const char* torch_name(DType type) {
  return type == DType::bf16 ? "bfloat16" : type == DType::f16 ? "float16" : "float32";
}

/// A text says what `config` says exactly where reading it gives `config` again: one rule in place
/// of a list of what each family has no key for.
void refuse_loss(const ModelConfig& config, const std::string& text) {
  const std::string_view family = facts_of(config.family).model_type;
  const auto refuse = [&](std::string_view got) {
    throw Error(ErrorKind::unsupported, "write_config",
                "a model that the keys of " + std::string(family) + " can describe", got,
                "choose the family whose models are like it");
  };
  ModelConfig read;
  try {
    read = parse_config(text);
  } catch (const Error& error) {
    refuse(error.what());
  }
  if (read != config) refuse("facts that would be lost in a config.json");
}

}  // namespace

std::string write_config(const ModelConfig& config) {
  validate(config, "write_config");
  const FamilyFacts& facts = facts_of(config.family);
  Json json;
  for (const auto& [key, value] : config.kept) json[key] = Json::parse(value, nullptr, false);
  json["architectures"] = Json::array({std::string(facts.architecture)});
  json["model_type"] = facts.model_type;
  json["hidden_size"] = config.hidden;
  json["intermediate_size"] = config.ffn;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.key_heads;
  json["head_dim"] = config.head_size;
  json["vocab_size"] = config.vocabulary;
  json["max_position_embeddings"] = config.max_positions;
  json["rms_norm_eps"] = config.norm_eps;
  json[std::string(facts.activation_key)] =
      config.activation == Activation::silu ? "silu" : "gelu_pytorch_tanh";
  if (facts.query_pre_attn_scalar) {
    const auto cap = [](double value) { return value == 0 ? Json(nullptr) : Json(value); };
    json["query_pre_attn_scalar"] =
        std::llround(1 / (config.attention_scale * config.attention_scale));
    json["attn_logit_softcapping"] = cap(config.attention_softcap);
    json["final_logit_softcapping"] = cap(config.logit_softcap);
  }
  write_windows(config, json);
  write_rope(config, json);
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["initializer_range"] = config.initializer_range;
  json["torch_dtype"] = torch_name(config.storage);
  json["pad_token_id"] = config.padding_token < 0 ? Json(nullptr) : Json(config.padding_token);
  json["attention_dropout"] = 0.0;
  if (!facts.qkv_bias) json["attention_bias"] = false;

  std::string text = json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
  refuse_loss(config, text);
  return text;
}

}  // namespace coda::nn

// SPDX-License-Identifier: Apache-2.0
#include "nn/names.h"

namespace coda::nn {

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  validate(config, "model");
  std::vector<ParameterSpec> list;
  const int64_t hidden = config.hidden, ffn = config.ffn, head = config.head_size;
  const int64_t query = config.query_columns(), key = config.key_columns();
  list.push_back({"model.embed_tokens.weight", config.vocabulary, hidden, Role::embedding, -1});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const auto add = [&](const char* name, int64_t rows, int64_t columns, Role role) {
      list.push_back({prefix + name, rows, columns, role, i});
    };
    const auto project = [&](const std::string& name, int64_t rows, Role weight, Role bias) {
      add((name + ".weight").c_str(), rows, hidden, weight);
      if (config.qkv_bias) add((name + ".bias").c_str(), rows, 0, bias);
    };
    add("input_layernorm.weight", hidden, 0, Role::attention_norm);
    project("self_attn.q_proj", query, Role::query_weight, Role::query_bias);
    project("self_attn.k_proj", key, Role::key_weight, Role::key_bias);
    project("self_attn.v_proj", key, Role::value_weight, Role::value_bias);
    if (config.qk_norm) {
      add("self_attn.q_norm.weight", head, 0, Role::query_norm);
      add("self_attn.k_norm.weight", head, 0, Role::key_norm);
    }
    add("self_attn.o_proj.weight", hidden, query, Role::attention_output_weight);
    // One name for two things: the norm after attention is the MLP's own where no other one is.
    if (config.sandwich_norms) {
      add("post_attention_layernorm.weight", hidden, 0, Role::attention_output_norm);
      add("pre_feedforward_layernorm.weight", hidden, 0, Role::ffn_norm);
    } else {
      add("post_attention_layernorm.weight", hidden, 0, Role::ffn_norm);
    }
    add("mlp.gate_proj.weight", ffn, hidden, Role::gate_weight);
    add("mlp.up_proj.weight", ffn, hidden, Role::up_weight);
    add("mlp.down_proj.weight", hidden, ffn, Role::down_weight);
    if (config.sandwich_norms)
      add("post_feedforward_layernorm.weight", hidden, 0, Role::ffn_output_norm);
  }
  list.push_back({"model.norm.weight", hidden, 0, Role::final_norm, -1});
  if (!config.tied_embeddings)
    list.push_back({"lm_head.weight", config.vocabulary, hidden, Role::output_weight, -1});
  return list;
}

}  // namespace coda::nn

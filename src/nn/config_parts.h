// SPDX-License-Identifier: Apache-2.0
// The parts of reading and writing a config.json: what each family takes for granted, and the keys
// of RoPE and of windows, whose forms differ most between families and versions of transformers.
#pragma once

#include <span>
#include <string_view>

#include "nn/config.h"
#include "nn/config_json.h"

namespace coda::nn {

/// What the name of a family stands for without a key that says so: the rules of its class in
/// transformers, and the defaults for keys that its own files leave out.
struct FamilyFacts {
  enum class Windows : unsigned char { never, every_layer, upper_layers, pattern };

  Family family;
  std::string_view model_type;
  std::string_view architecture;
  bool norm_unit_offset;
  bool sandwich_norms;
  bool qk_norm;
  bool qkv_bias;
  bool embedding_scaled;       // by sqrt(hidden)
  bool query_pre_attn_scalar;  // the key has the place of the head size in the attention's scale
  bool head_size_is_quotient;  // hidden / heads without a key
  std::string_view activation_key;
  std::string_view activation;
  bool tied_embeddings;
  int64_t padding_token;
  Windows windows;
  int64_t pattern;  // of windows: each layer but every such one has a window
  double theta;
  double local_theta;  // of layers with a window; 0: that of all layers
};

std::span<const FamilyFacts> all_families();
const FamilyFacts& facts_of(Family family);

/// The part of validate() that the other keys are read by.
void validate_sizes(const ModelConfig& config, std::string_view where);

void read_rope(JsonFields& fields, const FamilyFacts& facts, ModelConfig& config);
void write_rope(const ModelConfig& config, Json& json);

void read_windows(JsonFields& fields, const FamilyFacts& facts, ModelConfig& config);
void write_windows(const ModelConfig& config, Json& json);

}  // namespace coda::nn

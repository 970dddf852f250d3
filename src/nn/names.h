// SPDX-License-Identifier: Apache-2.0
// The parameters of a model as they lie on disk: their names in Hugging Face's files, and the shape
// that each must have. Every weight is [out, in]; nothing is permuted, transposed or packed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/config.h"

namespace coda::nn {

enum class Role : unsigned char {
  embedding,
  attention_norm,
  query_weight,
  query_bias,
  key_weight,
  key_bias,
  value_weight,
  value_bias,
  query_norm,
  key_norm,
  attention_output_weight,
  attention_output_norm,  // sandwich: of what attention adds
  ffn_norm,
  gate_weight,
  up_weight,
  down_weight,
  ffn_output_norm,  // sandwich: of what the MLP adds
  final_norm,
  output_weight,  // where the embedding is not tied to it
};

struct ParameterSpec {
  std::string name;
  int64_t rows;
  int64_t columns;  // 0: a vector of `rows` elements
  Role role;
  int64_t layer;  // -1: of no layer

  bool operator==(const ParameterSpec&) const = default;
};

/// All parameters of the model, in the order in which a forward pass meets them.
std::vector<ParameterSpec> parameters(const ModelConfig& config);

}  // namespace coda::nn

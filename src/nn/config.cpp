// SPDX-License-Identifier: Apache-2.0
#include "nn/config.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "nn/config_parts.h"

namespace coda::nn {
namespace {

// Products of two sizes stay far from the end of 64 bits, and a list per layer stays small.
constexpr int64_t kLargestSize = INT32_MAX;
constexpr int64_t kMostLayers = 65536;

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

class Checker {
 public:
  explicit Checker(std::string_view where) : where_(where) {}

  void size(const char* key, int64_t value, int64_t high = kLargestSize) const {
    if (value < 1 || value > high)
      refuse(key, "an integer from 1 to " + std::to_string(high), std::to_string(value),
             "correct the value");
  }

  void positive(const char* key, double value) const {
    if (!(value > 0) || !std::isfinite(value))
      refuse(key, "a number above 0", number_text(value), "correct the value");
  }

  [[noreturn]] void refuse(const char* key, std::string_view expected, std::string_view got,
                           std::string_view fix) const {
    throw Error(ErrorKind::shape, where_ + ": key '" + key + "'", expected, got, fix);
  }

 private:
  std::string where_;
};

void validate_rope(const Rope& rope, const Checker& check) {
  check.positive("rope_theta", rope.theta);
  if (rope.scaling == Rope::Scaling::none) return;
  check.positive("factor", rope.factor);
  if (rope.scaling == Rope::Scaling::linear) return;
  check.size("original_max_position_embeddings", rope.original_positions);
  if (rope.scaling == Rope::Scaling::llama3) {
    check.positive("low_freq_factor", rope.low_frequency_factor);
    if (!(rope.high_frequency_factor > rope.low_frequency_factor) ||
        !std::isfinite(rope.high_frequency_factor))
      check.refuse("high_freq_factor", "a number above low_freq_factor",
                   number_text(rope.high_frequency_factor), "correct the value");
    return;
  }
  check.positive("beta_fast", rope.beta_fast);
  check.positive("beta_slow", rope.beta_slow);
  check.positive("attention_factor", rope.attention_factor);
  // The correction range divides by log(theta).
  if (rope.theta == 1)
    check.refuse("rope_theta", "a base other than 1 for yarn", "1", "correct the value");
}

}  // namespace

void validate_sizes(const ModelConfig& config, std::string_view where) {
  const Checker check(where);
  check.size("hidden_size", config.hidden);
  check.size("intermediate_size", config.ffn);
  check.size("num_hidden_layers", config.layers, kMostLayers);
  check.size("num_attention_heads", config.heads);
  check.size("num_key_value_heads", config.key_heads);
  check.size("head_dim", config.head_size);
  check.size("vocab_size", config.vocabulary);
  check.size("max_position_embeddings", config.max_positions);
  if (config.heads % config.key_heads != 0)
    check.refuse("num_key_value_heads",
                 "a divisor of num_attention_heads = " + std::to_string(config.heads),
                 std::to_string(config.key_heads), "correct one of the two");
  if (config.head_size % 2 != 0)
    check.refuse("head_dim", "an even number, of which rotation makes pairs",
                 std::to_string(config.head_size), "correct the value");
  if (config.query_columns() > kLargestSize)
    check.refuse("head_dim",
                 "num_attention_heads * head_dim of at most " + std::to_string(kLargestSize),
                 std::to_string(config.query_columns()), "correct one of the two");
}

void validate(const ModelConfig& config, std::string_view where) {
  validate_sizes(config, where);
  const Checker check(where);
  check.positive("rms_norm_eps", config.norm_eps);
  check.positive("query_pre_attn_scalar", config.attention_scale);
  check.positive("hidden_size", config.embedding_scale);
  check.positive("initializer_range", config.initializer_range);
  if (config.attention_softcap != 0)
    check.positive("attn_logit_softcapping", config.attention_softcap);
  if (config.logit_softcap != 0) check.positive("final_logit_softcapping", config.logit_softcap);
  if (config.storage != DType::f32 && config.storage != DType::bf16 && config.storage != DType::f16)
    check.refuse("dtype", "f32, bf16 or f16", name_of(config.storage), "store the model as these");
  if (config.padding_token < -1 || config.padding_token >= config.vocabulary)
    check.refuse("pad_token_id", "a token below vocab_size = " + std::to_string(config.vocabulary),
                 std::to_string(config.padding_token), "correct the value");
  if (static_cast<int64_t>(config.windows.size()) != config.layers)
    check.refuse("layer_types", "one for each of " + std::to_string(config.layers) + " layers",
                 std::to_string(config.windows.size()), "correct the list");
  for (const int64_t window : config.windows)
    if (window != 0) check.size("sliding_window", window);
  validate_rope(config.rope, check);
  validate_rope(config.local_rope, check);
}

ModelConfig load_config(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  const std::string file = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  return parse_config(read_text(file), file);
}

}  // namespace coda::nn

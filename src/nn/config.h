// SPDX-License-Identifier: Apache-2.0
// What a Transformer of the LLaMA kind is, as facts: one struct for every family, which differ in
// their values and in nothing else. Read from and written to the config.json of Hugging Face.
//
// A layer, with norm(x) = x / sqrt(mean(x^2) + norm_eps) * weight:
//   h = x + attention(norm(x));  y = h + W_down (activation(W_gate norm(h)) * W_up norm(h))
// with sandwich_norms, what attention and the MLP return passes a norm of its own before it is
// added.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coda::nn {

/// Whose names and config keys a model on disk has. Nothing is computed from it.
enum class Family : unsigned char { llama, mistral, qwen2, qwen3, gemma2, gemma3 };

/// Of the gate in the MLP. gelu_tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum class Activation : unsigned char { silu, gelu_tanh };

/// How a model's rotary frequencies were stretched to longer texts than it was first trained on.
/// Each scaling has the parameters below its name; the others stay as they are here.
struct Rope {
  enum class Scaling : unsigned char { none, linear, llama3, yarn };

  double theta = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;                // linear, llama3, yarn
  int64_t original_positions = 0;   // llama3, yarn: the length before the stretch
  double low_frequency_factor = 0;  // llama3
  double high_frequency_factor = 0;
  double beta_fast = 0;  // yarn
  double beta_slow = 0;
  double attention_factor = 1;  // yarn: what cos and sin are multiplied by
  bool truncate = true;         // yarn: the correction range is rounded to whole dimensions

  bool operator==(const Rope&) const = default;
};

struct ModelConfig {
  Family family = Family::llama;

  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_heads = 0;  // divides heads
  int64_t head_size = 0;  // even; heads * head_size need not be hidden
  int64_t vocabulary = 0;
  int64_t max_positions = 0;

  double norm_eps = 0;
  bool norm_unit_offset = false;  // a norm multiplies by 1 + weight
  bool sandwich_norms = false;
  bool qk_norm = false;   // a norm over each head of q and k, before the rotation
  bool qkv_bias = false;  // q, k and v have a bias; no other product has one
  Activation activation = Activation::silu;

  double attention_scale = 0;    // of q k^T
  double attention_softcap = 0;  // c: scores s become c tanh(s / c); 0: none
  double logit_softcap = 0;      // the same of the logits
  double embedding_scale = 1;    // of the embedding's rows; round it to their storage type first
  bool tied_embeddings = false;  // the output product takes the embedding for its weight

  /// One per layer: how many positions a token sees, itself included; 0: all before it.
  std::vector<int64_t> windows;
  Rope rope;        // of layers without a window
  Rope local_rope;  // of layers with one

  double initializer_range = 0.02;
  DType storage = DType::f32;  // of the parameters: f32, bf16 or f16

  /// The token whose row of the embedding gets no gradient from where it is looked up; -1: none.
  int64_t padding_token = -1;

  /// Keys of config.json that change no number of the model, such as the tokens that begin and end
  /// a text, each with its value as JSON text; they are written back.
  std::map<std::string, std::string> kept;

  const Rope& rope_of(int64_t layer) const {
    return windows[static_cast<size_t>(layer)] == 0 ? rope : local_rope;
  }
  int64_t query_columns() const { return heads * head_size; }
  int64_t key_columns() const { return key_heads * head_size; }

  bool operator==(const ModelConfig&) const = default;
};

/// Throws unless the numbers make a model. `where` is put before the name of the key at fault.
void validate(const ModelConfig& config, std::string_view where);

/// The model that the text of a config.json describes. Every key is read, known to change no
/// number, or refused: so is what coda does not compute, such as a bias on the output projection.
ModelConfig parse_config(std::string_view text, std::string_view where = "config.json");

/// parse_config of a file, or of the config.json in a folder.
ModelConfig load_config(const std::string& path);

/// The text of a config.json for transformers, in keys that its versions 4 and 5 take alike. Throws
/// where the family has no key for what `config` says.
std::string write_config(const ModelConfig& config);

}  // namespace coda::nn

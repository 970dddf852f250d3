// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "nn/config_parts.h"

namespace coda::nn {
namespace {

constexpr const char* kRetrain = "use a model without it";

/// Written back: what a text starts and ends with.
constexpr const char* kKept[] = {"bos_token_id", "eos_token_id", "use_cache"};

/// What transformers of some version writes into the config of every model, or into one of these
/// families, without a meaning for the model's numbers.
constexpr const char* kWithoutMeaning[] = {
    "_attn_implementation_autoset",
    "_name_or_path",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "is_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
};

const FamilyFacts& read_family(JsonFields& fields) {
  const std::string type = fields.required_text("model_type");
  std::string known;
  for (const FamilyFacts& facts : all_families()) {
    if (facts.model_type == type) return facts;
    known += (known.empty() ? "" : ", ") + std::string(facts.model_type);
  }
  fields.refuse("model_type", "one of " + known, shown(type),
                type == "gemma3" ? "take the text_config of the model for its config.json"
                                 : "use a model of one of these families",
                ErrorKind::unsupported);
}

DType read_storage(JsonFields& fields) {
  const std::optional<std::string> names[] = {fields.text("torch_dtype"), fields.text("dtype")};
  if (names[0] && names[1] && *names[0] != *names[1])
    fields.refuse("dtype", "that of torch_dtype, " + shown(*names[0]), shown(*names[1]),
                  "remove one of the two");
  const std::string name = names[0] ? *names[0] : names[1].value_or("float32");
  if (name == "float32") return DType::f32;
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  fields.refuse(names[0] ? "torch_dtype" : "dtype", "\"float32\", \"bfloat16\" or \"float16\"",
                shown(name), "store the model as one of these", ErrorKind::unsupported);
}

Activation read_activation(JsonFields& fields, const FamilyFacts& facts) {
  const std::string key(facts.activation_key);
  const std::string name = fields.text(key.c_str()).value_or(std::string(facts.activation));
  // Gemma's files have both keys; the newer one counts.
  if (key != "hidden_act") fields.must_be("hidden_act", name, "remove the key");
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  fields.refuse(key, "\"silu\" or \"gelu_pytorch_tanh\"", shown(name),
                "use a model with one of these", ErrorKind::unsupported);
}

void read_sizes(JsonFields& fields, const FamilyFacts& facts, ModelConfig& config) {
  config.hidden = fields.required_integer("hidden_size");
  config.ffn = fields.required_integer("intermediate_size");
  config.layers = fields.required_integer("num_hidden_layers");
  config.heads = fields.required_integer("num_attention_heads");
  config.vocabulary = fields.required_integer("vocab_size");
  config.max_positions = fields.required_integer("max_position_embeddings");
  // LLaMA's first files have no key for grouped heads; the other classes each assume a number.
  const bool optional = facts.family == Family::llama || fields.contains("num_key_value_heads");
  config.key_heads = optional ? fields.integer("num_key_value_heads").value_or(config.heads)
                              : fields.required_integer("num_key_value_heads");
  if (!facts.head_size_is_quotient || fields.has("head_dim")) {
    config.head_size = fields.required_integer("head_dim");
  } else if (config.heads > 0 && config.hidden % config.heads == 0) {
    config.head_size = config.hidden / config.heads;
  } else {
    fields.refuse(
        "num_attention_heads", "a divisor of hidden_size = " + std::to_string(config.hidden),
        std::to_string(config.heads), "correct one of the two, or add head_dim", ErrorKind::shape);
  }
  validate_sizes(config, fields.where());
}

/// What the families have in common but coda does not compute: fine while it says nothing.
void refuse_extras(JsonFields& fields, const FamilyFacts& facts) {
  const Json architectures = Json::array({std::string(facts.architecture)});
  fields.must_be("architectures", architectures, "use a causal language model with its head");
  fields.must_be("attention_dropout", 0.0, "set it to 0.0 to train without dropout");
  fields.must_be("is_encoder_decoder", false, kRetrain);
  fields.must_be("add_cross_attention", false, kRetrain);
  fields.must_be("pruned_heads", Json::object(), kRetrain);
  if (!facts.qkv_bias) fields.must_be("attention_bias", false, kRetrain);
  if (facts.family == Family::llama) fields.must_be("mlp_bias", false, kRetrain);
  if (facts.family == Family::qwen2) fields.must_be("use_mrope", false, kRetrain);
  if (facts.windows == FamilyFacts::Windows::pattern)
    fields.must_be("use_bidirectional_attention", false, kRetrain);
}

/// Gemma's soft caps, and the scale of its attention.
void read_attention(JsonFields& fields, const FamilyFacts& facts, ModelConfig& config) {
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  if (!facts.query_pre_attn_scalar) return;
  const int64_t scalar = fields.required_integer("query_pre_attn_scalar");
  if (scalar < 1)
    fields.refuse("query_pre_attn_scalar", "an integer of at least 1", std::to_string(scalar),
                  "correct the value");
  config.attention_scale = 1 / std::sqrt(static_cast<double>(scalar));
  if (facts.family == Family::gemma2) {
    fields.must_say("attn_logit_softcapping");
    fields.must_say("final_logit_softcapping");
  } else {  // transformers has the key and takes no notice of it
    fields.must_be("attn_logit_softcapping", nullptr, kRetrain);
  }
  config.attention_softcap = fields.positive("attn_logit_softcapping").value_or(0);
  config.logit_softcap = fields.positive("final_logit_softcapping").value_or(0);
}

/// As torch.nn.Embedding takes its padding_idx: negative ones count from the end, -1 the last row.
int64_t read_padding(JsonFields& fields, const FamilyFacts& facts, int64_t vocabulary) {
  if (!fields.contains("pad_token_id")) return facts.padding_token;
  const std::optional<int64_t> token = fields.integer("pad_token_id");
  if (!token) return -1;
  if (*token < -vocabulary || *token >= vocabulary)
    fields.refuse("pad_token_id", "a token below vocab_size = " + std::to_string(vocabulary),
                  std::to_string(*token), "correct the value");
  return *token < 0 ? vocabulary + *token : *token;
}

}  // namespace

ModelConfig parse_config(std::string_view text, std::string_view where) {
  const Json json = parse_object(text, where);
  JsonFields fields(json, std::string(where));
  const FamilyFacts& facts = read_family(fields);

  ModelConfig config;
  config.family = facts.family;
  config.norm_unit_offset = facts.norm_unit_offset;
  config.sandwich_norms = facts.sandwich_norms;
  config.qk_norm = facts.qk_norm;
  config.qkv_bias = facts.qkv_bias;
  read_sizes(fields, facts, config);
  config.norm_eps = fields.required_positive("rms_norm_eps");
  config.activation = read_activation(fields, facts);
  read_attention(fields, facts, config);
  read_windows(fields, facts, config);
  read_rope(fields, facts, config);
  if (facts.embedding_scaled)
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.tied_embeddings = fields.boolean("tie_word_embeddings").value_or(facts.tied_embeddings);
  config.initializer_range = fields.positive("initializer_range").value_or(0.02);
  config.storage = read_storage(fields);
  config.padding_token = read_padding(fields, facts, config.vocabulary);
  refuse_extras(fields, facts);
  for (const char* key : kKept)
    if (const Json* value = fields.find(key)) config.kept.emplace(key, value->dump());
  for (const char* key : kWithoutMeaning) fields.pass(key);
  fields.refuse_unread("a key that coda knows for " + std::string(facts.model_type),
                       "remove the key if it changes no number of the model");
  validate(config, where);
  return config;
}

}  // namespace coda::nn

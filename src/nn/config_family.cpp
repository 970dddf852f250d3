// SPDX-License-Identifier: Apache-2.0
#include "nn/config_parts.h"

namespace coda::nn {
namespace {

using Windows = FamilyFacts::Windows;

constexpr FamilyFacts kFamilies[] = {
    {
        .family = Family::llama,
        .model_type = "llama",
        .architecture = "LlamaForCausalLM",
        .head_size_is_quotient = true,
        .activation_key = "hidden_act",
        .activation = "silu",
        .padding_token = -1,
        .windows = Windows::never,
        .theta = 1e4,
    },
    {
        .family = Family::mistral,
        .model_type = "mistral",
        .architecture = "MistralForCausalLM",
        .head_size_is_quotient = true,
        .activation_key = "hidden_act",
        .activation = "silu",
        .padding_token = -1,
        .windows = Windows::every_layer,
        .theta = 1e4,
    },
    {
        .family = Family::qwen2,
        .model_type = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .qkv_bias = true,
        .head_size_is_quotient = true,
        .activation_key = "hidden_act",
        .activation = "silu",
        .padding_token = -1,
        .windows = Windows::upper_layers,
        .theta = 1e4,
    },
    {
        .family = Family::qwen3,
        .model_type = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .qk_norm = true,
        .activation_key = "hidden_act",
        .activation = "silu",
        .padding_token = -1,
        .windows = Windows::upper_layers,
        .theta = 1e4,
    },
    {
        .family = Family::gemma2,
        .model_type = "gemma2",
        .architecture = "Gemma2ForCausalLM",
        .norm_unit_offset = true,
        .sandwich_norms = true,
        .embedding_scaled = true,
        .query_pre_attn_scalar = true,
        .activation_key = "hidden_activation",
        .activation = "gelu_pytorch_tanh",
        .tied_embeddings = true,
        .padding_token = 0,
        .windows = Windows::pattern,
        .pattern = 2,
        .theta = 1e4,
    },
    {
        .family = Family::gemma3,
        .model_type = "gemma3_text",
        .architecture = "Gemma3ForCausalLM",
        .norm_unit_offset = true,
        .sandwich_norms = true,
        .qk_norm = true,
        .embedding_scaled = true,
        .query_pre_attn_scalar = true,
        .activation_key = "hidden_activation",
        .activation = "gelu_pytorch_tanh",
        .tied_embeddings = true,
        .padding_token = 0,
        .windows = Windows::pattern,
        .pattern = 6,
        .theta = 1e6,
        .local_theta = 1e4,
    },
};

}  // namespace

std::span<const FamilyFacts> all_families() { return kFamilies; }

const FamilyFacts& facts_of(Family family) { return kFamilies[static_cast<size_t>(family)]; }

}  // namespace coda::nn

// SPDX-License-Identifier: Apache-2.0
#include "nn/model.h"

#include <map>

#include "base/convert.h"
#include "nn/names.h"
#include "nn/rope_frequencies.h"

namespace coda::nn {
namespace {

const char* table_name(const ModelConfig& config, int64_t layer) {
  return config.windows[static_cast<size_t>(layer)] == 0 ? "frequencies" : "local_frequencies";
}

class Builder {
 public:
  Builder(GraphBuilder& graph, const ModelConfig& config) : graph_(graph), config_(config) {
    for (const ParameterSpec& spec : parameters(config)) specs_[{spec.role, spec.layer}] = spec;
  }

  /// A parameter of the model, declared at its first use.
  Value parameter(Role role, int64_t layer = -1) {
    const auto key = std::make_pair(role, layer);
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    const ParameterSpec& spec = specs_.at(key);
    return values_[key] = spec.columns ? graph_.weight(spec.name, spec.rows, spec.columns)
                                       : graph_.vector(spec.name, spec.rows);
  }

  Value norm(Value x, Role role, int64_t layer = -1) {
    return rms_norm(x, parameter(role, layer), config_.norm_eps, config_.norm_unit_offset);
  }

  Value embed(DType type) {
    const Value ids = graph_.tokens("ids");
    const Value x = embedding(ids, parameter(Role::embedding), config_.padding_token);
    if (config_.embedding_scale == 1) return x;
    return x * rounded(config_.embedding_scale, type);
  }

  /// Attention of the normed stream h.
  Value attend(Value h, int64_t layer) {
    const auto project = [&](Role weight, Role bias) {
      const Value y = matmul(h, parameter(weight, layer));
      return config_.qkv_bias ? y + parameter(bias, layer) : y;
    };
    const Value q = project(Role::query_weight, Role::query_bias);
    const Value k = project(Role::key_weight, Role::key_bias);
    const Value v = project(Role::value_weight, Role::value_bias);
    AttentionOptions options{config_.heads, config_.key_heads, config_.head_size,
                             config_.attention_scale};
    options.softcap = config_.attention_softcap;
    options.window = config_.windows[static_cast<size_t>(layer)];
    // In statements: the order of nodes, and so of a plan, is the same from every compiler.
    const Value turned_q = turned(q, Role::query_norm, layer);
    const Value turned_k = turned(k, Role::key_norm, layer);
    return attention(turned_q, turned_k, v, options);
  }

  /// x + attention's projection of y, with the norm behind it where the model has one.
  Value add_attention(Value x, Value y, int64_t layer) {
    Value out = matmul(y, parameter(Role::attention_output_weight, layer));
    if (config_.sandwich_norms) out = norm(out, Role::attention_output_norm, layer);
    return x + out;
  }

  Value add_mlp(Value x, int64_t layer) {
    const Value h = norm(x, Role::ffn_norm, layer);
    const Value gate = matmul(h, parameter(Role::gate_weight, layer));
    const Value up = matmul(h, parameter(Role::up_weight, layer));
    const Value inner = config_.activation == Activation::silu ? swiglu(gate, up) : geglu(gate, up);
    Value out = matmul(inner, parameter(Role::down_weight, layer));
    if (config_.sandwich_norms) out = norm(out, Role::ffn_output_norm, layer);
    return x + out;
  }

  Value logits(Value x) {
    const Role weight = config_.tied_embeddings ? Role::embedding : Role::output_weight;
    const Value h = norm(x, Role::final_norm);
    const Value z = matmul(h, parameter(weight));
    return config_.logit_softcap > 0 ? softcap(z, config_.logit_softcap) : z;
  }

 private:
  static double rounded(double value, DType type) {
    if (type == DType::bf16) return to_f32(to_bf16(value));
    if (type == DType::f16) return to_f32(to_f16(value));
    return static_cast<double>(static_cast<float>(value));
  }

  Value turned(Value x, Role head_weight, int64_t layer) {
    if (config_.qk_norm)
      x = head_norm(x, parameter(head_weight, layer), config_.norm_eps, config_.norm_unit_offset);
    if (positions_.is_number()) positions_ = graph_.tokens("positions");
    Value& table = tables_[table_name(config_, layer)];
    if (table.is_number()) table = graph_.table(table_name(config_, layer), config_.head_size / 2);
    return rope(x, positions_, table, config_.rope_of(layer).attention_factor);
  }

  GraphBuilder& graph_;
  const ModelConfig& config_;
  std::map<std::pair<Role, int64_t>, ParameterSpec> specs_;
  std::map<std::pair<Role, int64_t>, Value> values_;
  std::map<std::string, Value> tables_;
  Value positions_;
};

}  // namespace

Graph model_graph(const ModelConfig& config, const Head& head, DType type) {
  validate(config, "model");
  GraphBuilder graph("model");
  Builder build(graph, config);
  Value x = build.embed(type);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const Value y = build.attend(build.norm(x, Role::attention_norm, layer), layer);
    x = build.add_attention(x, y, layer);
    graph.name(x, name + "_attention_residual");
    x = build.add_mlp(x, layer);
    // The last layer's gradients follow at once: nothing is gained from making it again.
    if (layer + 1 < config.layers) x = graph.end_block(x);
    graph.name(x, name + "_mlp_residual");
  }
  const Value logits = build.logits(x);
  if (head.kind == Head::Kind::logits) {
    graph.output("logits", logits);
    return graph.build();
  }
  const Value labels = graph.tokens("labels");
  Value loss = cross_entropy(logits, labels, {head.ignored, head.smoothing});
  if (head.z_loss != 0) loss = loss + head.z_loss * z_loss(logits, labels, head.ignored);
  graph.output("loss", total(loss));
  return graph.build();
}

Graph block_graph(const ModelConfig& config) {
  validate(config, "model");
  GraphBuilder graph("block");
  Builder build(graph, config);
  const Value x0 = graph.activations("x0", config.hidden);
  const Value y0 = graph.activations("y0", config.query_columns());
  const Value x1 = build.add_attention(x0, y0, 0);
  graph.name(x1, "x1");
  const Value x = build.add_mlp(x1, 0);
  const int64_t next = config.layers > 1 ? 1 : 0;
  graph.output("x", x);
  graph.output("y", build.attend(build.norm(x, Role::attention_norm, next), next));
  return graph.build();
}

std::vector<FrequencyTable> frequency_tables(const ModelConfig& config) {
  std::map<std::string, std::vector<float>> tables;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::vector<float>& table = tables[table_name(config, layer)];
    if (!table.empty()) continue;
    for (double value : rope_frequencies(config.rope_of(layer), config.head_size))
      table.push_back(static_cast<float>(value));
  }
  std::vector<FrequencyTable> result;
  for (auto& [name, values] : tables) result.push_back({name, std::move(values)});
  return result;
}

}  // namespace coda::nn

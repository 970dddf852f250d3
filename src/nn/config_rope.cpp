// SPDX-License-Identifier: Apache-2.0
// Keys of RoPE. Files of transformers 4 have rope_theta and, where the frequencies are scaled,
// rope_scaling; Gemma 3 has rope_local_base_freq beside them. transformers 5 writes one object,
// rope_parameters, and for Gemma 3 two of them, by the kind of layer.
#include <cmath>

#include "nn/config_parts.h"

namespace coda::nn {
namespace {

constexpr const char* kTypes = "\"default\", \"linear\", \"llama3\" or \"yarn\"";

std::string read_type(JsonFields& fields) {
  const std::optional<std::string> type = fields.text("rope_type");
  const std::optional<std::string> old = fields.text("type");
  if (type && old && *type != *old)
    fields.refuse("type", "that of rope_type, \"" + *type + "\"", "\"" + *old + "\"",
                  "remove one of the two");
  return type ? *type : old.value_or("default");
}

/// The factor by which YaRN multiplies cos and sin, without a key that gives it: 0.1 ln(s) + 1
/// (arXiv 2309.00071, section 3.4), or the quotient of two such terms that DeepSeek's files ask
/// for.
double yarn_attention_factor(double factor, std::optional<double> mscale,
                             std::optional<double> mscale_all_dim) {
  const auto term = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  return mscale && mscale_all_dim ? term(*mscale) / term(*mscale_all_dim) : term(1);
}

/// `theta` is the base that the config says outside of the object.
Rope read_scaling(JsonFields& fields, std::optional<double> theta, double usual_theta,
                  int64_t max_positions) {
  Rope rope;
  const std::optional<double> own = fields.positive("rope_theta");
  if (own && theta && *own != *theta)
    fields.refuse("rope_theta", "that of the key outside, " + shown(*theta), shown(*own),
                  "remove one of the two");
  rope.theta = own ? *own : theta.value_or(usual_theta);
  fields.must_be("partial_rotary_factor", 1.0, "use a model whose heads are rotated as a whole");

  const std::string type = read_type(fields);
  if (type == "linear") {
    rope.scaling = Rope::Scaling::linear;
    rope.factor = fields.required_positive("factor");
  } else if (type == "llama3") {
    rope.scaling = Rope::Scaling::llama3;
    rope.factor = fields.required_positive("factor");
    rope.low_frequency_factor = fields.required_positive("low_freq_factor");
    rope.high_frequency_factor = fields.required_positive("high_freq_factor");
  } else if (type == "yarn") {
    rope.scaling = Rope::Scaling::yarn;
    rope.factor = fields.required_positive("factor");
    rope.beta_fast = fields.positive("beta_fast").value_or(32);
    rope.beta_slow = fields.positive("beta_slow").value_or(1);
    rope.truncate = fields.boolean("truncate").value_or(true);
    const std::optional<double> mscale = fields.positive("mscale");
    const std::optional<double> mscale_all_dim = fields.positive("mscale_all_dim");
    rope.attention_factor =
        fields.positive("attention_factor")
            .value_or(yarn_attention_factor(rope.factor, mscale, mscale_all_dim));
  } else if (type != "default") {
    fields.refuse("rope_type", kTypes, shown(type), "use a model with one of these",
                  ErrorKind::unsupported);
  }
  if (type == "llama3" || type == "yarn")
    rope.original_positions =
        fields.integer("original_max_position_embeddings").value_or(max_positions);
  fields.refuse_unread("a key that \"" + type + "\" has",
                       "remove the key if it changes no number of the model");
  return rope;
}

Json scaling_json(const Rope& rope) {
  Json json;
  json["factor"] = rope.factor;
  switch (rope.scaling) {
    case Rope::Scaling::none:
      return nullptr;
    case Rope::Scaling::linear:
      json["rope_type"] = "linear";
      return json;
    case Rope::Scaling::llama3:
      json["rope_type"] = "llama3";
      json["low_freq_factor"] = rope.low_frequency_factor;
      json["high_freq_factor"] = rope.high_frequency_factor;
      break;
    case Rope::Scaling::yarn:
      json["rope_type"] = "yarn";
      json["beta_fast"] = rope.beta_fast;
      json["beta_slow"] = rope.beta_slow;
      json["attention_factor"] = rope.attention_factor;
      if (!rope.truncate) json["truncate"] = false;
      break;
  }
  json["original_max_position_embeddings"] = rope.original_positions;
  return json;
}

}  // namespace

void read_rope(JsonFields& fields, const FamilyFacts& facts, ModelConfig& config) {
  const std::optional<double> theta = fields.positive("rope_theta");
  std::optional<JsonFields> old = fields.object("rope_scaling");
  std::optional<JsonFields> parameters = fields.object("rope_parameters");
  fields.must_be("partial_rotary_factor", 1.0, "use a model whose heads are rotated as a whole");
  if (old && parameters)
    fields.refuse("rope_scaling", "one of rope_scaling and rope_parameters", "both",
                  "remove one of the two");

  const Json nothing = Json::object();
  JsonFields plain(nothing, fields.where());
  const auto read = [&](std::optional<JsonFields>& object, std::optional<double> outside,
                        double usual) {
    return read_scaling(object ? *object : plain, outside, usual, config.max_positions);
  };
  if (facts.local_theta == 0) {
    config.rope = read(old ? old : parameters, theta, facts.theta);
    config.local_rope = config.rope;
    return;
  }

  const std::optional<double> local_theta = fields.positive("rope_local_base_freq");
  std::optional<JsonFields> local;
  if (parameters) {
    old = parameters->object("full_attention");
    local = parameters->object("sliding_attention");
    parameters->refuse_unread("the keys full_attention and sliding_attention alone",
                              "write one object for each kind of layer");
  }
  config.rope = read(old, theta, facts.theta);
  config.local_rope = read(local, local_theta, facts.local_theta);
  if (config.local_rope.scaling != Rope::Scaling::none)
    fields.refuse("rope_parameters", "\"default\" for sliding_attention",
                  shown(scaling_json(config.local_rope)), "use a model with one of these",
                  ErrorKind::unsupported);
}

void write_rope(const ModelConfig& config, Json& json) {
  json["rope_theta"] = config.rope.theta;
  json["rope_scaling"] = scaling_json(config.rope);
  if (facts_of(config.family).local_theta != 0)
    json["rope_local_base_freq"] = config.local_rope.theta;
}

}  // namespace coda::nn

// SPDX-License-Identifier: Apache-2.0
// Keys that say which layers attend through a window. Each family has a rule of its own, which a
// list of layer types, in newer files, stands above; one window serves all of these layers.
#include <algorithm>

#include "nn/config_parts.h"

namespace coda::nn {
namespace {

using Windows = FamilyFacts::Windows;

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

/// One flag per layer: whether the list calls it a sliding one; nothing without a list.
std::optional<std::vector<bool>> read_types(JsonFields& fields, int64_t layers) {
  const Json* types = fields.find("layer_types");
  if (!types) return std::nullopt;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers)
    fields.refuse(
        "layer_types", "a list of num_hidden_layers = " + std::to_string(layers) + " texts",
        types->is_array() ? std::to_string(types->size()) : shown(*types), "correct the list");
  std::vector<bool> sliding;
  for (const Json& type : *types) {
    if (type != kFull && type != kSliding)
      fields.refuse("layer_types", "\"full_attention\" or \"sliding_attention\"", shown(type),
                    "use a model whose layers are of these kinds", ErrorKind::unsupported);
    sliding.push_back(type == kSliding);
  }
  return sliding;
}

/// Gemma: every layer but each `pattern`-th one.
std::vector<bool> read_pattern(JsonFields& fields, const FamilyFacts& facts, int64_t layers,
                               bool listed) {
  int64_t pattern = facts.pattern;
  if (facts.family == Family::gemma3) {  // Gemma 2 has no key for it
    pattern = fields.integer("sliding_window_pattern").value_or(pattern);
    const std::optional<int64_t> other = fields.integer("_sliding_window_pattern");
    if (pattern < 1)
      fields.refuse("sliding_window_pattern", "a number of layers", std::to_string(pattern),
                    "correct the value");
    // A remark that transformers leaves beside its list, and reads as little as this does.
    if (!listed && other && *other != pattern)
      fields.refuse("_sliding_window_pattern", "that of sliding_window_pattern",
                    std::to_string(*other), "write a list of layer_types");
  }
  std::vector<bool> sliding;
  for (int64_t i = 1; i <= layers; ++i) sliding.push_back(i % pattern != 0);
  return sliding;
}

}  // namespace

void read_windows(JsonFields& fields, const FamilyFacts& facts, ModelConfig& config) {
  const auto count = static_cast<size_t>(config.layers);
  const std::optional<std::vector<bool>> types = read_types(fields, config.layers);
  std::vector<bool> sliding(count, false);
  std::optional<int64_t> window;
  bool list_decides = true;
  switch (facts.windows) {
    case Windows::never:
      list_decides = false;
      break;
    case Windows::every_layer:
      fields.must_say("sliding_window");
      window = fields.integer("sliding_window");
      sliding.assign(count, window.has_value());
      list_decides = false;
      break;
    case Windows::upper_layers: {
      const bool used = fields.boolean("use_sliding_window").value_or(false);
      window = fields.integer("sliding_window");
      const std::optional<int64_t> first = fields.integer("max_window_layers");
      list_decides = used && window;
      if (!list_decides || types) break;
      if (!first || *first < 0)
        fields.refuse("max_window_layers", "the number of layers without a window",
                      first ? std::to_string(*first) : "no such key", "add the key");
      for (size_t i = 0; i < count; ++i) sliding[i] = static_cast<int64_t>(i) >= *first;
      break;
    }
    case Windows::pattern:
      window = fields.integer("sliding_window");
      if (window) fields.must_be("sliding_window_size", *window, "remove the key");
      sliding = read_pattern(fields, facts, config.layers, types.has_value());
      break;
  }
  if (types && list_decides) sliding = *types;
  // transformers takes no notice of such a list here: it may agree, and nothing else.
  if (types && *types != sliding)
    fields.refuse("layer_types", "what the family's other keys say of windows",
                  shown(*fields.find("layer_types")), "remove the list");
  const bool any = std::find(sliding.begin(), sliding.end(), true) != sliding.end();
  if (any && (!window || *window < 1))
    fields.refuse("sliding_window", "an integer of at least 1",
                  window ? std::to_string(*window) : "none", "add the window of these layers");
  config.windows.clear();
  for (const bool slides : sliding) config.windows.push_back(slides ? *window : 0);
}

void write_windows(const ModelConfig& config, Json& json) {
  const FamilyFacts& facts = facts_of(config.family);
  if (facts.windows == Windows::never) return;
  const auto none = [](int64_t window) { return window == 0; };
  const auto first = std::find_if_not(config.windows.begin(), config.windows.end(), none);
  const bool any = first != config.windows.end();
  json["sliding_window"] = any ? Json(*first) : Json(nullptr);
  if (facts.windows == Windows::every_layer) return;
  if (facts.windows == Windows::upper_layers) {
    json["use_sliding_window"] = any;
    json["max_window_layers"] = first - config.windows.begin();
  }
  Json types = Json::array();
  for (const int64_t window : config.windows) types.push_back(none(window) ? kFull : kSliding);
  json["layer_types"] = std::move(types);
}

}  // namespace coda::nn

// SPDX-License-Identifier: Apache-2.0
#include "train/footprint.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "rewrite/labels.h"

namespace coda::train {
namespace {

/// "mlp_residual" for "layer3_mlp_residual", "value" for "value3".
std::string without_number(const std::string& name) {
  constexpr const char* kDigits = "0123456789";
  constexpr std::string_view kLayer = "layer";
  for (const std::string_view counted : {"row", "value"})
    if (name.find_first_not_of(kDigits, counted.size()) == std::string::npos &&
        name.compare(0, counted.size(), counted) == 0)
      return std::string(counted);
  if (name.compare(0, kLayer.size(), kLayer) != 0) return name;
  const size_t end = name.find_first_not_of(kDigits, kLayer.size());
  const bool numbered = end != std::string::npos && end > kLayer.size() && name[end] == '_';
  return numbered ? name.substr(end + 1) : name;
}

}  // namespace

std::vector<TensorBytes> peak_tensors(const rewrite::Plan& plan, const execute::Layout& layout) {
  std::map<std::string, TensorBytes> tensors;
  for (const auto& [name, bytes] : execute::peak(rewrite::labelled(plan), layout).buffers) {
    TensorBytes& tensor = tensors[without_number(name)];
    tensor.name = without_number(name);
    ++tensor.count;
    tensor.bytes += bytes;
  }
  std::vector<TensorBytes> result;
  for (auto& [name, tensor] : tensors) result.push_back(std::move(tensor));
  std::stable_sort(result.begin(), result.end(),
                   [](const TensorBytes& a, const TensorBytes& b) { return a.bytes > b.bytes; });
  return result;
}

Footprint footprint(const nn::ModelConfig& config, const rewrite::Plan& plan, int64_t tokens,
                    DType type, StateType state) {
  Footprint result;
  for (const nn::ParameterSpec& spec : nn::parameters(config)) {
    const std::string where = "'" + spec.name + "'";
    const int64_t count = checked_multiply(spec.rows, spec.columns ? spec.columns : 1, where);
    result.parameters = checked_add(result.parameters, count, where);
  }
  // Weights, master, two moments and gradients are 20 bytes a parameter at most.
  checked_multiply(result.parameters, 20, "parameters");
  const auto parameters = static_cast<size_t>(result.parameters);
  const bool masters = state == StateType::f32;
  result.weights = parameters * size_of(type);
  result.masters = masters ? parameters * sizeof(float) : 0;
  result.moments = 2 * parameters * (masters ? sizeof(float) : size_of(type));
  result.gradients = parameters * sizeof(float);
  const execute::Layout layout = execute::lay_out(plan, tokens, type);
  result.arena = layout.bytes;
  result.peak = peak_tensors(plan, layout);
  return result;
}

}  // namespace coda::train

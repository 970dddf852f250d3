// SPDX-License-Identifier: Apache-2.0
// Cuts a program into the kernels of the unfused sequence (explain.h says by which rule).
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/simplify.h"
#include "runtime/explain.h"

namespace coda {
namespace {

using ir::ValueId;

/// Kernels run in the order of their keys: values that wait for more reductions inside the tile
/// come later; at one level elementwise work precedes the reductions that may read it.
struct Key {
  int level;
  bool reduction;
  bool complete;
  std::string dims;  // of a reduction: what it keeps; of elementwise work: tile or vector
  auto operator<=>(const Key&) const = default;
};

class Cut {
 public:
  Cut(const ir::Program& program, DType type, const std::vector<int64_t>& symbols)
      : program_(program), type_(type), symbols_(symbols), live_(ir::live_nodes(program)) {
    find_levels();
    place_roots();
  }

  std::vector<KernelCost> kernels() {
    std::vector<KernelCost> result;
    for (const auto& [key, kernel] : kernels_) result.push_back(cost(key, kernel));
    return result;
  }

 private:
  struct Kernel {
    std::vector<ValueId> roots;      // values it computes and that lie in memory afterwards
    std::vector<std::string> names;  // of outputs and reductions
    double written = 0;
  };

  const ir::Reduce* reduction(ValueId id) const {
    return std::get_if<ir::Reduce>(&program_.nodes[id]);
  }
  bool complete(ValueId id) const { return program_.info[id].stage == ir::Stage::complete; }

  /// The level of a value: how many reductions inside the tile stand before it.
  void find_levels() {
    levels_.assign(program_.nodes.size(), 0);
    for (ValueId id : live_) {
      for (ValueId arg : operands(program_.nodes[id]))
        levels_[id] = std::max(levels_[id], levels_[arg] + (reduction(arg) && !complete(arg)));
    }
  }

  Key reduction_key(ValueId id) const {
    return {levels_[id], true, complete(id), to_string(reduction(id)->kept, program_)};
  }

  /// The last complete reduction that a finished value is made of.
  ValueId source(ValueId id) const {
    if (reduction(id)) return id;
    ValueId last = -1;
    for (ValueId arg : operands(program_.nodes[id]))
      if (complete(arg)) last = std::max(last, source(arg));
    return last;
  }

  void place_roots() {
    for (ValueId id : live_)
      if (reduction(id)) {
        Kernel& kernel = kernels_[reduction_key(id)];
        kernel.names.emplace_back(name_of(reduction(id)->op));
        if (!complete(id)) {  // a finished one is written by the outputs made of it
          kernel.roots.push_back(id);
          kernel.written += 4 * elements(program_.info[id].dims, symbols_);
        }
      }
    for (const ir::Output& output : program_.outputs) {
      const ir::Dims& dims = program_.info[output.value].dims;
      const Key key = complete(output.value) ? reduction_key(source(output.value))
                                             : Key{levels_[output.value], false, false,
                                                   dims.is_tile() ? "tile" : "vector"};
      Kernel& kernel = kernels_[key];
      kernel.names.push_back(output.name);
      kernel.roots.push_back(output.value);
      kernel.written += bytes(output.type, output.dims, type_, symbols_);
    }
    for (const auto& [key, kernel] : kernels_)
      for (ValueId id : kernel.roots) home_.emplace(id, key);
  }

  KernelCost cost(const Key& key, const Kernel& kernel) {
    KernelCost result;
    const char* separator = "";
    for (const std::string& name : kernel.names) result.work += separator + name, separator = ", ";
    result.written = kernel.written;
    std::set<ValueId> seen;
    for (ValueId id : kernel.roots) walk(key, id, true, seen, result);
    return result;
  }

  /// Adds what computing `id` in kernel `key` reads and does; stops at what already lies in memory.
  void walk(const Key& key, ValueId id, bool root, std::set<ValueId>& seen, KernelCost& result) {
    if (!seen.insert(id).second) return;
    const ir::Node& node = program_.nodes[id];
    if (const auto* load = std::get_if<ir::InputValue>(&node)) {
      const ir::Input& input = program_.inputs[load->input];
      if (input.kind != ir::Input::Kind::scalar)
        result.read += bytes(stored(input), input.dims, type_, symbols_);
      return;
    }
    if (const auto home = home_.find(id); !root && home != home_.end() && home->second < key) {
      result.read += stored_bytes(id);
      return;
    }
    if (std::holds_alternative<ir::Elementwise>(node))
      result.operations += elements(program_.info[id].dims, symbols_);
    else if (const ir::Reduce* reduce = reduction(id))
      result.operations += elements(program_.info[reduce->arg].dims, symbols_);
    for (ValueId arg : operands(node)) walk(key, arg, false, seen, result);
  }

  /// An accumulator lies in memory as T once its product was written.
  static ir::ElementType stored(const ir::Input& input) {
    return input.kind == ir::Input::Kind::accumulator ? ir::ElementType{true, DType::f32}
                                                      : input.type;
  }

  double stored_bytes(ValueId id) const {
    for (const ir::Output& output : program_.outputs)
      if (output.value == id) return bytes(output.type, output.dims, type_, symbols_);
    return 4 * elements(program_.info[id].dims, symbols_);
  }

  const ir::Program& program_;
  DType type_;
  const std::vector<int64_t>& symbols_;
  std::vector<ValueId> live_;
  std::vector<int> levels_;
  std::map<Key, Kernel> kernels_;
  std::map<ValueId, Key> home_;
};

}  // namespace

std::vector<KernelCost> unfused_kernels(const ir::Program& program, DType type,
                                        const std::vector<int64_t>& symbols, int64_t k) {
  const auto m = static_cast<double>(symbols[ir::kSymbolM]);
  const auto n = static_cast<double>(symbols[ir::kSymbolN]);
  const auto depth = static_cast<double>(k), width = static_cast<double>(size_of(type));
  std::vector<KernelCost> result;
  for (const ir::Input& input : program.inputs)
    if (input.kind == ir::Input::Kind::accumulator)
      result.push_back(
          {"product " + input.name, (m + n) * depth * width, m * n * width, 2 * m * n * depth});
  const std::vector<KernelCost> rest = Cut(program, type, symbols).kernels();
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

}  // namespace coda

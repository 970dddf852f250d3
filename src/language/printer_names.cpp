// SPDX-License-Identifier: Apache-2.0
#include "language/printer_names.h"

#include <algorithm>
#include <set>

#include "language/words.h"

namespace coda::language {
namespace {

using ir::ValueId;

// An expression larger or deeper than this gets a name: lines stay short, and nesting far below
// what the parser allows.
constexpr int kMaxWeight = 24;
constexpr int kMaxDepth = 12;

bool is_leaf(const ir::Node& node) { return ir::operands(node).empty(); }

bool is_moments(const ir::Reduce& node) {
  return node.op == ir::ReduceOp::moments_mean || node.op == ir::ReduceOp::moments_var;
}

/// A half of a split or of moments.
bool is_half(const ir::Node& node) {
  const auto* reduce = std::get_if<ir::Reduce>(&node);
  return std::holds_alternative<ir::Split>(node) || (reduce && is_moments(*reduce));
}

bool are_two_halves(const ir::Node& a, const ir::Node& b) {
  if (const auto* x = std::get_if<ir::Split>(&a), *y = std::get_if<ir::Split>(&b); x && y)
    return x->arg == y->arg && x->half == y->half && x->part != y->part;
  if (const auto* x = std::get_if<ir::Reduce>(&a), *y = std::get_if<ir::Reduce>(&b); x && y)
    return is_moments(*x) && is_moments(*y) && x->arg == y->arg && x->kept == y->kept &&
           x->op != y->op;
  return false;
}

class Names {
 public:
  /// `wanted`, changed as little as makes it a new name of the language.
  std::string add(std::string_view wanted) {
    std::string base(wanted);
    for (char& c : base)
      if (!is_name(std::string("a") + c)) c = '_';
    if (!is_name(base) && !is_reserved(base)) base = "x" + base;
    std::string name = is_reserved(base) ? base + "_" : base;
    for (int i = 2; !used_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return name;
  }
  std::string generate() {
    std::string name;
    do name = "t" + std::to_string(++generated_);
    while (!used_.insert(name).second);
    return name;
  }

 private:
  std::set<std::string, std::less<>> used_;
  int generated_ = 0;
};

std::vector<int> count_uses(const ir::Program& program) {
  std::vector<int> uses(program.nodes.size(), 0);
  for (const ir::Output& output : program.outputs) ++uses[output.value];
  for (size_t i = program.nodes.size(); i-- > 0;)
    if (uses[i] > 0 || !program.names[i].empty())
      for (ValueId id : ir::operands(program.nodes[i])) ++uses[id];
  return uses;
}

/// Finds the halves that one statement sets; their common argument is then used once.
void pair_halves(const ir::Program& program, std::vector<int>& uses, std::vector<ValueId>& pair) {
  std::vector<ValueId> halves;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (!is_half(program.nodes[i]) || (uses[i] == 0 && program.names[i].empty())) continue;
    const int id = static_cast<int>(i);
    const auto other = std::find_if(halves.begin(), halves.end(), [&](ValueId candidate) {
      return are_two_halves(program.nodes[candidate], program.nodes[id]);
    });
    if (other == halves.end()) {
      halves.push_back(id);
      continue;
    }
    pair[id] = *other;
    pair[*other] = id;
    halves.erase(other);
    --uses[ir::operands(program.nodes[id])[0]];
  }
}

}  // namespace

Layout lay_out(const ir::Program& original) {
  Layout layout{original, std::vector<ValueId>(original.nodes.size(), -1)};
  ir::Program& program = layout.program;
  const size_t count = program.nodes.size();
  Names names;
  program.name = Names().add(program.name);

  // Sizes, inputs and outputs are the interface: they choose their names before all others.
  for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i)
    program.symbols[i] = names.add(program.symbols[i]);
  for (ir::Input& input : program.inputs) input.name = names.add(input.name);
  for (ir::Output& output : program.outputs) output.name = names.add(output.name);

  // A value that an output stores takes the output's name where it has none of its own; two outputs
  // of one value are two statements.
  std::vector<bool> named(count, false);
  for (size_t i = 0; i < count; ++i)
    if (const auto* load = std::get_if<ir::InputValue>(&program.nodes[i])) {
      program.names[i] = program.inputs[load->input].name;
      named[i] = true;
    }
  for (size_t i = 0; i < original.outputs.size(); ++i) {
    const ValueId value = original.outputs[i].value;
    if (named[value] ||
        (!original.names[value].empty() && original.names[value] != original.outputs[i].name))
      continue;
    program.names[value] = program.outputs[i].name;
    named[value] = true;
  }
  for (size_t i = 0; i < count; ++i)
    if (!named[i] && !program.names[i].empty()) program.names[i] = names.add(program.names[i]);

  std::vector<int> uses = count_uses(program);
  pair_halves(program, uses, layout.pair);
  std::vector<int> weight(count, 1), depth(count, 1);
  for (size_t i = 0; i < count; ++i) {
    if (uses[i] == 0 && program.names[i].empty()) continue;
    const ir::Node& node = program.nodes[i];
    for (ValueId id : ir::operands(node)) {
      if (!program.names[id].empty()) continue;
      weight[i] += weight[id];
      depth[i] = std::max(depth[i], depth[id] + 1);
    }
    const bool own = is_half(node) || (uses[i] > 1 && !is_leaf(node)) || weight[i] > kMaxWeight ||
                     depth[i] > kMaxDepth;
    if (own && program.names[i].empty()) program.names[i] = names.generate();
  }
  return layout;
}

}  // namespace coda::language

// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "ir/simplify.h"

namespace coda::ir {
namespace {

void append(std::string& key, int64_t value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& key, const Size& size) {
  append(key, size.numerator), append(key, size.denominator);
  append(key, static_cast<int64_t>(size.powers.size()));
  for (const auto& [symbol, exponent] : size.powers) append(key, symbol), append(key, exponent);
}

void append(std::string& key, const Dims& dims) {
  append(key, dims.rows), append(key, static_cast<int64_t>(dims.columns.kind));
  append(key, dims.columns.width), append(key, dims.columns.size);
}

void append(std::string& key, const ElementType& type) {
  append(key, type.generic), append(key, static_cast<int64_t>(type.dtype));
}

void append(std::string& key, const AttentionShape& shape) {
  for (int64_t value : {shape.query_heads, shape.key_heads, shape.head_size, shape.window})
    append(key, value);
  append(key, std::bit_cast<int64_t>(shape.scale));
  append(key, std::bit_cast<int64_t>(shape.softcap));
}

void append(std::string& key, const WholeOp& op) {
  append(key, static_cast<int64_t>(op.index()));
  std::visit(Overloaded{[](const auto&) {}, [&](const Product& n) { append(key, n.segments); },
                        [&](const InputGradient& n) {
                          for (int segments : n.segments) append(key, segments);
                        },
                        [&](const Repeat& n) { append(key, n.width); },
                        [&](const Slice& n) { append(key, n.first), append(key, n.width); },
                        [&](const Embedding& n) { append(key, n.padding); },
                        [&](const EmbeddingGradient& n) { append(key, n.rows); },
                        [&](const Attention& n) { append(key, n.shape), append(key, n.part); },
                        [&](const AttentionGradient& n) { append(key, n.shape); },
                        [&](const Composite& n) {
                          append(key, static_cast<int64_t>(n.kind)), append(key, n.unit_offset);
                          append(key, n.head_size), append(key, n.ignored);
                          for (double value : {n.eps, n.smoothing, n.scale})
                            append(key, std::bit_cast<int64_t>(value));
                        }},
             op);
}

/// Equal exactly for nodes that compute the same value.
std::string key_of(const Node& node) {
  std::string key;
  append(key, static_cast<int64_t>(node.index()));
  for (ValueId id : operands(node)) append(key, id);
  std::visit(
      Overloaded{
          [&](const RealConstant& n) { append(key, std::bit_cast<int64_t>(n.value)); },
          [&](const IntegerConstant& n) { append(key, n.value); },
          [&](const SizeParameter& n) { append(key, n.symbol); },
          [&](const Index& n) { append(key, n.row), append(key, n.width); },
          [&](const InputValue& n) { append(key, n.input); },
          [&](const Elementwise& n) { append(key, static_cast<int64_t>(n.op)); },
          [&](const Round& n) { append(key, n.type); },
          [&](const Split& n) { append(key, n.half), append(key, n.part); },
          [&](const Join& n) { append(key, n.half); },
          [&](const Swap& n) { append(key, n.half), append(key, n.group); },
          [&](const Reduce& n) { append(key, static_cast<int64_t>(n.op)), append(key, n.kept); },
          [&](const Whole& n) { append(key, n.op); }},
      node);
  return key;
}

/// Copies name, symbols and inputs; map[i] becomes the new id of the value of input i, by node.
void copy_signature(const Program& program, Builder& builder) {
  if (program.graph) builder.make_graph();
  for (size_t i = kFirstParameter; i < program.symbols.size(); ++i)
    builder.size_parameter(program.symbols[i]);
  for (const Input& input : program.inputs) builder.input(input);
}

}  // namespace

Value Consing::node(const Node& node) {
  const std::string key = key_of(node);
  if (const auto found = known_.find(key); found != known_.end()) return {&builder_, found->second};
  if (const auto* input = std::get_if<InputValue>(&node))
    for (size_t i = 0; i < builder_.program().nodes.size(); ++i)
      if (const auto* other = std::get_if<InputValue>(&builder_.program().nodes[i]))
        if (other->input == input->input) return {&builder_, static_cast<ValueId>(i)};
  const Value value = builder_.node(node);
  known_.emplace(key, value.id());
  return value;
}

std::vector<ValueId> live_nodes(const Program& program) {
  std::vector<bool> live(program.nodes.size());
  for (const Output& output : program.outputs) live[output.value] = true;
  for (size_t i = program.nodes.size(); i-- > 0;)
    if (live[i])
      for (ValueId id : operands(program.nodes[i])) live[id] = true;
  std::vector<ValueId> result;
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i]) result.push_back(static_cast<ValueId>(i));
  return result;
}

std::vector<int> use_counts(const Program& program) {
  std::vector<int> counts(program.nodes.size());
  for (ValueId i : live_nodes(program))
    for (ValueId id : operands(program.nodes[i])) ++counts[id];
  for (const Output& output : program.outputs) ++counts[output.value];
  return counts;
}

Program eliminate(const Program& program) {
  Builder builder(program.name);
  copy_signature(program, builder);
  Consing consing(builder);
  std::vector<ValueId> map(program.nodes.size(), -1);
  for (ValueId i : live_nodes(program)) {
    const Value value =
        consing.node(with_operands(program.nodes[i], [&](ValueId id) { return map[id]; }));
    if (!program.names[i].empty()) builder.name(value, program.names[i]);
    map[i] = value.id();
  }
  for (Output output : program.outputs) {
    output.value = map[output.value];
    builder.output(std::move(output));
  }
  return builder.finish();
}

Program drop_unused_inputs(const Program& program) {
  std::vector<bool> used(program.inputs.size());
  for (ValueId i : live_nodes(program))
    if (const auto* input = std::get_if<InputValue>(&program.nodes[i])) used[input->input] = true;
  Program result = program;
  std::vector<int> map(program.inputs.size(), -1);
  result.inputs.clear();
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) {
      map[i] = static_cast<int>(result.inputs.size());
      result.inputs.push_back(program.inputs[i]);
    }
  std::vector<ValueId> ids(program.nodes.size(), -1);
  result.nodes.clear(), result.info.clear(), result.names.clear();
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    Node node = with_operands(program.nodes[i], [&](ValueId id) { return ids[id]; });
    if (auto* input = std::get_if<InputValue>(&node)) {
      if (!used[input->input]) continue;
      input->input = map[input->input];
    }
    ids[i] = static_cast<ValueId>(result.nodes.size());
    result.nodes.push_back(std::move(node));
    result.info.push_back(program.info[i]);
    result.names.push_back(program.names[i]);
  }
  for (Output& output : result.outputs) output.value = ids[output.value];
  verify(result);
  return result;
}

}  // namespace coda::ir

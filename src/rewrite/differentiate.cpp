// SPDX-License-Identifier: Apache-2.0
// Pass 4, differentiate: gradients are added to the graph, and it is decided what they keep of the
// forward part.
//
// The gradient comes from one reverse walk, op by op (src/autodiff). What it needs of the forward
// values is chosen by a minimum cut: saved values are the cheapest from which all others follow by
// arithmetic; those others are computed again, as new nodes, where the backward part needs them. An
// operand of a weight gradient that is not saved so becomes one more store of a region that has its
// inputs anyway. It runs after products were joined, so that joined products have joined gradients.
#include <coda/error.h>

#include <map>

#include "autodiff/reverse.h"
#include "autodiff/save.h"
#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::ValueId;

class Assembly {
 public:
  Assembly(const ir::Program& forward, std::set<ValueId> saved)
      : forward_(forward), saved_(std::move(saved)), builder_(forward.name) {
    builder_.make_graph();
    std::vector<ValueId> inputs;
    for (const ir::Input& input : forward.inputs) inputs.push_back(builder_.input(input).id());
    map_.assign(forward.nodes.size(), -1);
    for (size_t i = 0; i < forward.nodes.size(); ++i) {
      if (const auto* input = std::get_if<ir::InputValue>(&forward.nodes[i])) {
        map_[i] = inputs[input->input];
        continue;
      }
      const Value value =
          builder_.node(ir::with_operands(forward.nodes[i], [&](ValueId id) { return map_[id]; }));
      if (!forward.names[i].empty()) builder_.name(value, forward.names[i]);
      map_[i] = value.id();
    }
    for (ir::Output output : forward.outputs) {
      output.value = map_[output.value];
      builder_.output(output);
    }
  }

  Joint run(const ir::Program& adjoint, const std::map<int, ValueId>& placeholders) {
    const auto backward = static_cast<ValueId>(builder_.program().nodes.size());
    std::vector<ValueId> map(adjoint.nodes.size(), -1);
    for (ValueId i : ir::live_nodes(adjoint)) {
      if (const auto* input = std::get_if<ir::InputValue>(&adjoint.nodes[i])) {
        const auto placeholder = placeholders.find(input->input);
        map[i] = placeholder == placeholders.end()
                     ? builder_.input(adjoint.inputs[input->input]).id()
                     : forward_value(placeholder->second);
      } else {
        map[i] =
            builder_.node(ir::with_operands(adjoint.nodes[i], [&](ValueId id) { return map[id]; }))
                .id();
      }
    }
    for (ir::Output output : adjoint.outputs) {
      output.value = of_its_own(map[output.value]);
      builder_.output(output);
    }
    return {builder_.finish(), backward};
  }

 private:
  /// A gradient that is an upstream one, or some columns of another matrix, is a copy of it.
  ValueId of_its_own(ValueId id) {
    const ir::Program& program = builder_.program();
    const ir::Node& node = program.nodes[id];
    const bool columns =
        program.info[id].dims.rows && (ir::whole<ir::Slice>(node) || ir::whole<ir::Concat>(node));
    if (!columns && !std::holds_alternative<ir::InputValue>(node)) return id;
    return builder_.elementwise(ir::Op::mul, {Value(&builder_, id), 1.0}).id();
  }

  /// The forward value itself where it is saved, otherwise computed again.
  ValueId forward_value(ValueId id) {
    const ir::Node& node = forward_.nodes[id];
    if (saved_.count(id) || std::holds_alternative<ir::InputValue>(node)) return map_[id];
    if (const auto found = again_.find(id); found != again_.end()) return found->second;
    const Value value = builder_.node(
        ir::with_operands(node, [&](ValueId operand) { return forward_value(operand); }));
    if (!forward_.names[id].empty()) builder_.name(value, forward_.names[id]);
    return again_[id] = value.id();
  }

  const ir::Program& forward_;
  const std::set<ValueId> saved_;
  ir::Builder builder_;
  std::vector<ValueId> map_;
  std::map<ValueId, ValueId> again_;
};

/// Every weight and every vector of T, in the order of inputs.
std::vector<std::string> parameters(const ir::Program& graph) {
  std::vector<std::string> names;
  const std::vector<int> uses = ir::use_counts(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* value = std::get_if<ir::InputValue>(&graph.nodes[i]);
    if (!value || uses[i] == 0) continue;
    const ir::Input& input = graph.inputs[value->input];
    const bool vector = input.kind == ir::Input::Kind::tensor && !input.dims.rows &&
                        input.dims.columns.kind != ir::Columns::Kind::none && input.type.generic;
    if (input.kind == ir::Input::Kind::weight || vector) names.push_back(input.name);
  }
  return names;
}

}  // namespace

Joint differentiate(const ir::Program& graph, const Options& options) {
  if (options.of.empty()) return {graph, static_cast<ValueId>(graph.nodes.size())};
  autodiff::Options wanted;
  wanted.of = options.of;
  wanted.wrt = options.wrt.empty() ? parameters(graph) : options.wrt;
  const autodiff::Reverse walked = autodiff::reverse(graph, wanted);
  const ir::Program adjoint = ir::simplify(walked.adjoint);
  std::set<ValueId> needed;
  for (ValueId i : ir::live_nodes(adjoint))
    if (const auto* input = std::get_if<ir::InputValue>(&adjoint.nodes[i]))
      if (const auto found = walked.placeholders.find(input->input);
          found != walked.placeholders.end())
        needed.insert(found->second);
  const std::set<ValueId> saved = autodiff::choose_loads(
      walked.forward, needed, {chunked_products(walked.forward, options), options.late});
  return Assembly(walked.forward, saved).run(adjoint, walked.placeholders);
}

}  // namespace coda::rewrite

// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes.h"

namespace coda::rewrite {

ir::Program rebuild(const ir::Program& graph, const Rule& rule) {
  ir::Builder builder(graph.name);
  builder.make_graph();
  Rebuild to(builder);
  std::vector<ir::ValueId> inputs;
  for (const ir::Input& input : graph.inputs) inputs.push_back(builder.input(input).id());
  std::vector<ir::ValueId> map(graph.nodes.size(), -1);
  for (ir::ValueId i : ir::live_nodes(graph)) {
    if (const auto* input = std::get_if<ir::InputValue>(&graph.nodes[i])) {
      map[i] = inputs[input->input];
      continue;
    }
    const ir::Node node =
        ir::with_operands(graph.nodes[i], [&](ir::ValueId id) { return map[id]; });
    std::optional<Value> value = rule(to, node, i);
    if (!value) value = to.emit(node);
    map[i] = builder.id(*value);
    if (!graph.names[i].empty()) builder.name(*value, graph.names[i]);
  }
  for (ir::Output output : graph.outputs) {
    output.value = map[output.value];
    builder.output(std::move(output));
  }
  return ir::eliminate(builder.finish());
}

}  // namespace coda::rewrite

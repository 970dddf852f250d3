// SPDX-License-Identifier: Apache-2.0
// A text that two programs share exactly when they compute the same in the same way: the nodes that
// outputs need, in the order the outputs reach them, without names. Constants, indices and sizes
// count once per use.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace coda::language {

inline std::string canonical(const ir::Program& program) {
  ir::Builder builder(program.name);
  for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i)
    builder.size_parameter(program.symbols[i]);
  std::string text;
  std::vector<Value> inputs;
  for (const ir::Input& input : program.inputs) {
    inputs.push_back(builder.input(input));
    text += input.name + " " + std::to_string(static_cast<int>(input.kind)) + " " +
            to_string(input.type) + to_string(input.dims, program) + "\n";
  }
  std::map<ir::ValueId, ir::ValueId> built;
  const auto leaf = [&](ir::ValueId id) {
    ir::Node node = program.nodes[id];
    if (const auto* input = std::get_if<ir::InputValue>(&node)) return inputs[input->input].id();
    if (auto* real = std::get_if<ir::RealConstant>(&node); real && std::isnan(real->value))
      real->value = std::abs(real->value);  // the sign of NaN means nothing
    return builder.node(node).id();
  };
  const auto mapped = [&](ir::ValueId id) {
    return ir::operands(program.nodes[id]).empty() ? leaf(id) : built.at(id);
  };
  for (const ir::Output& output : program.outputs) {
    std::vector<std::pair<ir::ValueId, bool>> stack{{output.value, false}};
    while (!stack.empty()) {
      const auto [id, ready] = stack.back();
      stack.pop_back();
      const ir::Node& node = program.nodes[id];
      const std::vector<ir::ValueId> operands = ir::operands(node);
      if (operands.empty() || built.count(id)) continue;
      if (ready) {
        built[id] = builder.node(ir::with_operands(node, mapped)).id();
        continue;
      }
      stack.emplace_back(id, true);
      for (size_t i = operands.size(); i-- > 0;) stack.emplace_back(operands[i], false);
    }
    builder.output({output.name, output.type, output.dims, mapped(output.value)});
  }
  return text + dump(builder.finish());
}

}  // namespace coda::language

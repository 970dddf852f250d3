// SPDX-License-Identifier: Apache-2.0
#include "autodiff/linear.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace coda::autodiff {

using ir::Op;
using ir::Program;
using ir::ValueId;

namespace {

bool is_zero(const Program& program, ValueId id) {
  const auto* real = std::get_if<ir::RealConstant>(&program.nodes[id]);
  const auto* integer = std::get_if<ir::IntegerConstant>(&program.nodes[id]);
  return (real && real->value == 0) || (integer && integer->value == 0);
}

/// A factor per token passes through what mixes columns alone.
bool linear_whole(const Program& program, const ir::Whole& node,
                  const std::function<bool(ValueId)>& linear) {
  if (!std::holds_alternative<ir::Product>(node.op) &&
      !std::holds_alternative<ir::Concat>(node.op) && !std::holds_alternative<ir::Slice>(node.op))
    return false;
  return std::all_of(node.args.begin(), node.args.end(),
                     [&](ValueId id) { return program.info[id].weight_rows != 0 || linear(id); });
}

}  // namespace

Linear linear_in(const Program& program, ValueId source) {
  Linear result;
  result.source = source;
  std::vector<bool> depends(program.nodes.size());
  const auto linear = [&](ValueId id) { return result.nodes.count(id) > 0; };
  const auto proportional = [&](ValueId id) { return linear(id) || is_zero(program, id); };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ir::Node& node = program.nodes[i];
    for (ValueId id : ir::operands(node)) depends[i] = depends[i] || depends[id];
    bool yes = false;
    if (static_cast<ValueId>(i) == source) {
      depends[i] = yes = true;
    } else if (const auto* n = std::get_if<ir::Elementwise>(&node)) {
      const auto& a = n->args;
      if (n->op == Op::mul)
        yes = (linear(a[0]) && !depends[a[1]]) || (linear(a[1]) && !depends[a[0]]);
      else if (n->op == Op::div)
        yes = linear(a[0]) && !depends[a[1]];
      else if (n->op == Op::add || n->op == Op::sub)
        yes = depends[i] && proportional(a[0]) && proportional(a[1]);
      else if (n->op == Op::neg)
        yes = linear(a[0]);
      else if (n->op == Op::where)
        yes = depends[i] && !depends[a[0]] && proportional(a[1]) && proportional(a[2]);
    } else if (std::holds_alternative<ir::Split>(node) || std::holds_alternative<ir::Swap>(node)) {
      yes = linear(ir::operands(node)[0]);
    } else if (const auto* n = std::get_if<ir::Join>(&node)) {
      yes = depends[i] && proportional(n->a) && proportional(n->b);
    } else if (const auto* n = std::get_if<ir::Whole>(&node)) {
      yes = depends[i] && linear_whole(program, *n, linear);
    }
    if (yes) result.nodes.insert(static_cast<ValueId>(i));
  }
  for (size_t i = 0; i < program.nodes.size(); ++i)
    for (ValueId id : ir::operands(program.nodes[i]))
      if (linear(id) && !linear(static_cast<ValueId>(i))) result.frontier.insert(id);
  for (const ir::Output& output : program.outputs)
    if (linear(output.value)) result.frontier.insert(output.value);
  result.frontier.erase(result.source);
  return result;
}

}  // namespace coda::autodiff

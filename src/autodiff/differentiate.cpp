// SPDX-License-Identifier: Apache-2.0
#include "autodiff/differentiate.h"

#include <coda/error.h>

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/reverse.h"
#include "autodiff/save.h"
#include "ir/simplify.h"

namespace coda::autodiff {
namespace {

using ir::Program;
using ir::ValueId;

bool taken(const Program& program, const std::string& name) {
  const auto same = [&](const auto& item) { return item.name == name; };
  return std::any_of(program.inputs.begin(), program.inputs.end(), same) ||
         std::any_of(program.outputs.begin(), program.outputs.end(), same);
}

/// Name of the output that saves a value: the value's own, otherwise saved1, saved2, ...
std::string saved_name(const Program& program, ValueId id) {
  std::string name = program.names[id];
  const auto* input = std::get_if<ir::InputValue>(&program.nodes[id]);
  if (input) name += "_saved";  // an accumulator's own name names the accumulator
  for (int i = 1; name.empty() || taken(program, name); ++i) name = "saved" + std::to_string(i);
  return name;
}

/// Adds an output for each value of `loads` that is neither an input in memory nor stored already.
void add_saves(Program& forward, const std::set<ValueId>& loads) {
  for (ValueId id : loads) {
    const auto* input = std::get_if<ir::InputValue>(&forward.nodes[id]);
    if (input && forward.inputs[input->input].kind != ir::Input::Kind::accumulator) continue;
    if (stored_output(forward, id) >= 0) continue;
    const ir::ValueInfo& info = forward.info[id];
    const bool wide = info.dims.rows && info.dims.columns.kind == ir::Columns::Kind::all;
    ir::ElementType type{wide, DType::f32};
    if (info.number == ir::Number::integer) type = {false, DType::i64};
    if (info.number == ir::Number::mask) type = {false, DType::u8};
    forward.outputs.push_back({saved_name(forward, id), type, info.dims, id});
  }
}

/// Puts the adjoint's nodes and the recomputed forward values into one program.
class Assembly {
 public:
  Assembly(const Reverse& reverse, const Program& adjoint, const std::set<ValueId>& loads)
      : reverse_(reverse), adjoint_(adjoint), forward_(reverse.forward), builder_(adjoint.name) {
    for (size_t i = ir::kFirstParameter; i < forward_.symbols.size(); ++i)
      builder_.size_parameter(forward_.symbols[i]);
    for (size_t i = 0; i < adjoint.inputs.size(); ++i)
      if (!reverse.placeholders.count(static_cast<int>(i)))
        seeds_[static_cast<int>(i)] = builder_.input(fresh(adjoint.inputs[i])).id();
    for (ValueId id : loads) load(id);
  }

  Program run() {
    std::vector<ValueId> map(adjoint_.nodes.size(), -1);
    for (ValueId i : ir::live_nodes(adjoint_)) {
      if (const auto* input = std::get_if<ir::InputValue>(&adjoint_.nodes[i])) {
        const auto placeholder = reverse_.placeholders.find(input->input);
        map[i] = placeholder == reverse_.placeholders.end() ? seeds_.at(input->input)
                                                            : forward_value(placeholder->second);
      } else {
        map[i] =
            builder_.node(ir::with_operands(adjoint_.nodes[i], [&](ValueId id) { return map[id]; }))
                .id();
      }
    }
    for (ir::Output output : adjoint_.outputs) {
      output.value = map[output.value];
      while (names_.count(output.name)) output.name += "_";
      names_.insert(output.name);
      builder_.output(output);
    }
    return builder_.finish();
  }

 private:
  /// A seed d_y gives way to an input of the forward program that is called d_y itself.
  ir::Input fresh(ir::Input input) {
    while (taken(forward_, input.name) || names_.count(input.name)) input.name += "_";
    names_.insert(input.name);
    return input;
  }

  void load(ValueId id) {
    ir::Input input{"", ir::Input::Kind::tensor, {}, forward_.info[id].dims};
    const auto* source = std::get_if<ir::InputValue>(&forward_.nodes[id]);
    if (source && forward_.inputs[source->input].kind != ir::Input::Kind::accumulator) {
      input = forward_.inputs[source->input];
    } else {
      const ir::Output& output = forward_.outputs[stored_output(forward_, id)];
      input.name = output.name, input.type = output.type;
    }
    names_.insert(input.name);
    values_[id] = builder_.input(input).id();
  }

  ValueId forward_value(ValueId id) {
    if (const auto found = values_.find(id); found != values_.end()) return found->second;
    const ir::Node node = ir::with_operands(
        forward_.nodes[id], [&](ValueId operand) { return forward_value(operand); });
    const Value value = builder_.node(node);
    if (!forward_.names[id].empty() && !names_.count(forward_.names[id])) {
      names_.insert(forward_.names[id]);
      builder_.name(value, forward_.names[id]);
    }
    return values_[id] = value.id();
  }

  const Reverse& reverse_;
  const Program& adjoint_;
  const Program& forward_;
  ir::Builder builder_;
  std::map<int, ValueId> seeds_;
  std::map<ValueId, ValueId> values_;  // forward value -> here
  std::set<std::string> names_;
};

}  // namespace

Result differentiate(const Program& program, const Options& options) {
  Reverse walked = reverse(ir::eliminate(program), options);
  const Program adjoint = ir::simplify(walked.adjoint);
  std::set<ValueId> needed;
  for (ValueId i : ir::live_nodes(adjoint))
    if (const auto* input = std::get_if<ir::InputValue>(&adjoint.nodes[i]))
      if (const auto found = walked.placeholders.find(input->input);
          found != walked.placeholders.end())
        needed.insert(found->second);
  const std::set<ValueId> loads = choose_loads(walked.forward, needed);
  add_saves(walked.forward, loads);
  Result result;
  result.backward = ir::drop_unused_inputs(ir::simplify(Assembly(walked, adjoint, loads).run()));
  result.forward = ir::eliminate(walked.forward);
  return result;
}

Program into_accumulator(const Program& program, std::string_view name) {
  Program result = program;
  const std::string where = "into_accumulator '" + program.name + "'";
  for (ir::Input& input : result.inputs) {
    if (input.name != name) continue;
    const ir::Dims full{true, {ir::Columns::Kind::all, ir::symbol_size(ir::kSymbolN), {}}};
    const bool real = input.type.generic || is_float(input.type.dtype);
    if (input.kind != ir::Input::Kind::tensor || !(input.dims == full) || !real)
      throw Error(ErrorKind::program, where, "a float tensor over [m, n]",
                  "'" + input.name + "' over " + ir::to_string(input.dims, program),
                  "name a full-width tile input");
    input.kind = ir::Input::Kind::accumulator;
    input.type = {};
    ir::verify(result);
    return result;
  }
  throw Error(ErrorKind::program, where, "the name of an input", "'" + std::string(name) + "'",
              "see the inputs before ->");
}

}  // namespace coda::autodiff

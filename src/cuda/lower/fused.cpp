// SPDX-License-Identifier: Apache-2.0
#include "cuda/lower/fused.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "cuda/lower/fragments.h"
#include "cuda/scalar/operands.h"
#include "ir/simplify.h"

namespace coda::cuda {

using device::Kind;
using device::Port;
using ir::Columns;
using ir::Program;
using ir::ValueId;

bool LoweredFused::number(ValueId id) const { return program.info[id].dims.is_scalar(); }

bool LoweredFused::by_rows(ValueId id) const {
  const ir::Dims& dims = program.info[id].dims;
  return dims.rows && dims.columns.kind == Columns::Kind::none;
}

int LoweredFused::fragment(const Columns& columns) const {
  return 4 * device::strip_blocks(pair, width_of(columns));
}

int LoweredFused::elements(ValueId id) const {
  return number(id) ? 1 : by_rows(id) ? 4 : fragment(program.info[id].dims.columns);
}

ValueId LoweredFused::result_of(int index) const {
  const FusedPort& port = ports[index];
  return port.output >= 0 ? program.outputs[port.output].value
                          : std::get<ir::Reduce>(program.nodes[port.reduction]).arg;
}

const Columns& LoweredFused::result_columns(int index) const {
  const FusedPort& port = ports[index];
  return port.output >= 0 ? program.outputs[port.output].dims.columns
                          : program.info[result_of(index)].dims.columns;
}

namespace {

bool is_accumulator(const ir::Input& input) { return input.kind == ir::Input::Kind::accumulator; }

void add_input_ports(const Instance& instance, LoweredFused& lowered) {
  const Program& program = lowered.program;
  for (ValueId id : tile_nodes(program))
    if (const auto* n = std::get_if<ir::InputValue>(&program.nodes[id]))
      if (const ir::Input& input = program.inputs[n->input]; !is_accumulator(input))
        lowered.ports.push_back({*input_port(instance, input), n->input});
}

void add_fold_ports(const Instance& instance, LoweredFused& lowered) {
  for (ValueId id : tile_nodes(lowered.program))
    if (in_tile_reduction(lowered.program, id)) {
      const auto& n = std::get<ir::Reduce>(lowered.program.nodes[id]);
      Port port{Kind::group_fold};
      port.reduce = device_reduce(n.op);
      port.group = known_size(instance, n.kept.columns.size);
      lowered.ports.push_back({port, -1, -1, id});
    }
}

void add_output_ports(const Instance& instance, LoweredFused& lowered) {
  for (size_t i = 0; i < lowered.program.outputs.size(); ++i) {
    const ir::Output& output = lowered.program.outputs[i];
    if (!stored_in_tile(lowered.program, output)) continue;
    const bool group = output.dims.columns.kind == Columns::Kind::group;
    Port port{group ? Kind::group_out : Kind::tile_out, width_of(output.dims.columns)};
    port.type = device_type(storage(output.type, instance));
    if (group) port.group = known_size(instance, output.dims.columns.size);
    lowered.ports.push_back({port, -1, static_cast<int>(i)});
  }
}

/// Reductions of one value in one direction that need the same state share a port.
void add_partial_ports(LoweredFused& lowered) {
  const Program& program = lowered.program;
  std::map<std::tuple<ValueId, Kind, device::Reduce>, int> arrays;
  for (ValueId id : ir::live_nodes(program)) {
    const auto* n = std::get_if<ir::Reduce>(&program.nodes[id]);
    if (!n || program.info[id].stage != ir::Stage::complete) continue;
    Port port{n->kept.columns.kind == Columns::Kind::none ? Kind::keep_m : Kind::keep_n,
              width_of(program.info[n->arg].dims.columns)};
    port.reduce = device_reduce(n->op);
    const auto [at, is_new] = arrays.emplace(std::make_tuple(n->arg, port.kind, port.reduce),
                                             static_cast<int>(arrays.size()));
    lowered.partials.push_back({id, at->second});
    if (is_new) lowered.ports.push_back({port, -1, -1, id});
  }
}

int port_of(const LoweredFused& lowered, int input, ValueId reduction) {
  const auto found = std::find_if(
      lowered.ports.begin(), lowered.ports.end(),
      [&](const FusedPort& port) { return port.input == input && port.reduction == reduction; });
  return static_cast<int>(found - lowered.ports.begin());
}

/// Elementwise values join the loop before them where it has their size.
void add_value(const Instance& instance, const LoweredFused& lowered, FusedPass& pass, ValueId id) {
  using Step = FusedStep::Kind;
  if (in_tile_reduction(lowered.program, id)) {
    pass.steps.push_back({Step::call, {id}, port_of(lowered, -1, id)});
  } else if (pair_offset(instance, lowered.program.nodes[id]) != 0) {
    pass.steps.push_back({Step::call, {id}});
  } else if (!pass.steps.empty() && pass.steps.back().kind == Step::loop &&
             lowered.elements(pass.steps.back().values[0]) == lowered.elements(id) &&
             lowered.by_rows(pass.steps.back().values[0]) == lowered.by_rows(id)) {
    pass.steps.back().values.push_back(id);
  } else {
    pass.steps.push_back({Step::loop, {id}});
  }
}

/// What folded groups need, or everything else.
FusedPass lower_pass(const Instance& instance, const LoweredFused& lowered, bool folding) {
  using Step = FusedStep::Kind;
  const Program& program = lowered.program;
  FusedPass pass;
  std::set<ValueId> wanted;
  std::vector<int> results;
  for (int i = 0; i < static_cast<int>(lowered.ports.size()); ++i) {
    const FusedPort& port = lowered.ports[i];
    if (port.input >= 0 || (port.port.kind == Kind::group_fold) != folding) continue;
    results.push_back(i);
    collect(program, lowered.result_of(i), wanted);
  }
  for (ValueId id : wanted)
    if (const auto* n = std::get_if<ir::InputValue>(&program.nodes[id]))
      if (!is_accumulator(program.inputs[n->input]))
        pass.steps.push_back({Step::load, {id}, port_of(lowered, n->input, -1)});
  // Numbers and values per row first: they need nothing of the tile, and between the tile's values
  // they would end a loop, whose values then have to live on as arrays.
  std::vector<ValueId> order(wanted.begin(), wanted.end());
  std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
    const auto rank = [&](ValueId id) {
      return lowered.number(id) ? 0 : lowered.by_rows(id) ? 1 : 2;
    };
    return rank(a) < rank(b);
  });
  for (ValueId id : order)
    if (!std::holds_alternative<ir::InputValue>(program.nodes[id]))
      add_value(instance, lowered, pass, id);

  std::vector<const FusedStep*> step_of(program.nodes.size());
  for (const FusedStep& step : pass.steps)
    for (ValueId id : step.values) step_of[id] = &step;
  pass.arrays.resize(program.nodes.size());
  for (ValueId id : wanted)
    if (!in_tile_reduction(program, id))
      for (ValueId operand : expression_operands(program, id))
        if (step_of[operand] != step_of[id]) pass.arrays[operand] = true;
  for (int index : results) {
    pass.arrays[lowered.result_of(index)] = true;
    pass.steps.push_back({Step::result, {lowered.result_of(index)}, index});
  }
  return pass;
}

LoweredFused with_ports(const Instance& instance) {
  LoweredFused lowered{ir::eliminate(*instance.program), pair_of(instance)};
  add_input_ports(instance, lowered);
  add_fold_ports(instance, lowered);
  add_output_ports(instance, lowered);
  add_partial_ports(lowered);
  return lowered;
}

}  // namespace

std::vector<FusedPort> fused_ports(const Instance& instance) { return with_ports(instance).ports; }

LoweredFused lower_fused(const Instance& instance, bool narrow) {
  LoweredFused lowered = with_ports(instance);
  if (narrow && lowered.pair == 0) lowered.pair = device::kNarrow;
  const bool folds = std::any_of(lowered.ports.begin(), lowered.ports.end(), [](const auto& port) {
    return port.port.kind == Kind::group_fold;
  });
  if (folds) lowered.passes.push_back(lower_pass(instance, lowered, true));
  lowered.passes.push_back(lower_pass(instance, lowered, false));
  return lowered;
}

}  // namespace coda::cuda

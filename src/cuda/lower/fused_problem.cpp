// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cuda/lower/fragments.h"
#include "cuda/lower/fused.h"
#include "ir/simplify.h"

namespace coda::cuda {
namespace {

using device::Width;
using ir::Columns;
using ir::Number;
using ir::Program;
using ir::Stage;
using ir::ValueId;

/// Why a node has no form on fragments; empty where it has one.
std::string node_problem(const Instance& instance, const Program& program, ValueId id) {
  const ir::Node& node = program.nodes[id];
  const int pair = pair_offset(instance, node);
  if (pair > 1 && pair % 8 != 0)
    return fmt::format("pairs at offset {} (1 or a multiple of 8 fit)", pair);
  if (const auto* n = std::get_if<ir::Swap>(&node))
    if (pair == 1 || known_size(instance, n->group) % (2 * pair) != 0)
      return "a swap whose group is no multiple of twice its offset";
  if (const auto* n = std::get_if<ir::InputValue>(&node)) {
    const ir::Input& input = program.inputs[n->input];
    if (input.kind != ir::Input::Kind::accumulator && !input_port(instance, input))
      return "input '" + input.name + "' over " + ir::to_string(input.dims, program) + " as " +
             to_string(input.type);
  }
  if (!in_tile_reduction(program, id)) return "";
  const auto& n = std::get<ir::Reduce>(node);
  const int group = known_size(instance, n.kept.columns.size);
  const bool one_word = device::reduce_words(device_reduce(n.op)) == 1;
  const ir::ValueInfo& arg = program.info[n.arg];
  const bool tile = arg.dims.rows && arg.dims.columns.kind == Columns::Kind::all &&
                    width_of(arg.dims.columns) == Width::full && arg.number != Number::integer;
  std::set<ValueId> behind;
  collect(program, n.arg, behind);
  const bool nested = std::any_of(behind.begin(), behind.end(),
                                  [&](ValueId i) { return in_tile_reduction(program, i); });
  if (!one_word || !tile || nested || group % 8 != 0)
    return fmt::format("{} over groups of {} columns{}", name_of(n.op), group,
                       nested ? " of groups" : "");
  return "";
}

std::string reduction_problem(const Program& program, const ir::Reduce& n) {
  const ir::ValueInfo& arg = program.info[n.arg];
  const std::string what = std::string(name_of(n.op)) + to_string(n.kept, program);
  if (!arg.dims.rows || arg.dims.columns.kind != Columns::Kind::all)
    return what + " over " + to_string(arg.dims, program) + ", which is no tile";
  if (arg.number == Number::integer) return what + " of integers";
  if (n.kept.rows && n.kept.columns.kind == Columns::Kind::repeat) return what;
  const bool words = device::reduce_words(device_reduce(n.op)) > 1;
  if (n.kept.columns.kind != Columns::Kind::none && words) return what + " over rows";
  return "";
}

}  // namespace

std::optional<std::string> fused_problem(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  if (std::none_of(program.inputs.begin(), program.inputs.end(), [](const ir::Input& input) {
        return input.kind == ir::Input::Kind::accumulator;
      }))
    return "there is no accumulator";
  if (tile_nodes(program).empty()) return "no output needs the tile";
  for (ValueId id : tile_nodes(program))
    if (const std::string problem = node_problem(instance, program, id); !problem.empty())
      return problem;
  for (ValueId id : ir::live_nodes(program))
    if (const auto* n = std::get_if<ir::Reduce>(&program.nodes[id]))
      if (program.info[id].stage == Stage::complete)
        if (const std::string problem = reduction_problem(program, *n); !problem.empty())
          return problem;
  for (const ir::Output& output : program.outputs) {
    if (!stored_in_tile(program, output)) continue;
    const DType type = storage(output.type, instance);
    const bool group = output.dims.columns.kind == Columns::Kind::group;
    if (group ? type != DType::f32 || width_of(output.dims.columns) != Width::full
              : type == DType::i32 || type == DType::i64)
      return "output '" + output.name + "' over " + to_string(output.dims, program) + " as " +
             name_of(type);
  }
  const int pair = pair_of(instance);
  for (ValueId id : tile_nodes(program))
    if (const int other = pair_offset(instance, program.nodes[id]); other != 0 && other != pair)
      return fmt::format("pairs at two offsets, {} and {}", pair, other);
  if (const int multiple = chunk_multiple(instance); 128 % multiple != 0)
    return fmt::format("pairs or groups that span {} columns (a divisor of 128 fits)", multiple);
  return std::nullopt;
}

}  // namespace coda::cuda

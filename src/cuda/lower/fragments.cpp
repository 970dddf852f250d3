// SPDX-License-Identifier: Apache-2.0
#include "cuda/lower/fragments.h"

#include <algorithm>
#include <numeric>

#include "cuda/lower/pointwise.h"
#include "cuda/scalar/operands.h"
#include "ir/simplify.h"

namespace coda::cuda {

using device::Kind;
using device::Port;
using device::Type;
using device::Width;
using ir::Columns;
using ir::Program;
using ir::ReduceOp;
using ir::Size;
using ir::Stage;
using ir::ValueId;

Type device_type(DType type) {
  switch (type) {
    case DType::f32:
      return Type::f32;
    case DType::bf16:
      return Type::bf16;
    case DType::f16:
      return Type::f16;
    case DType::e4m3:
      return Type::e4m3;
    case DType::e5m2:
      return Type::e5m2;
    case DType::u8:
      return Type::u8;
    case DType::i32:
      return Type::i32;
    default:
      return Type::i64;
  }
}

Width width_of(const Columns& columns) {
  const Size n = ir::symbol_size(ir::kSymbolN);
  if (columns.width == n) return Width::full;
  return columns.width == n * ir::constant_size(2) ? Width::twice : Width::half;
}

device::Reduce device_reduce(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return device::Reduce::max;
    case ReduceOp::min:
      return device::Reduce::min;
    case ReduceOp::logsumexp:
      return device::Reduce::logsumexp;
    case ReduceOp::argmax:
      return device::Reduce::argmax;
    case ReduceOp::moments_mean:
    case ReduceOp::moments_var:
      return device::Reduce::moments;
    default:
      return device::Reduce::sum;
  }
}

int known_size(const Instance& instance, const Size& size) {
  return static_cast<int>(ir::evaluate(size, instance.symbols, "a group or pair"));
}

std::optional<Port> input_port(const Instance& instance, const ir::Input& input) {
  Port port{};
  const Columns& columns = input.dims.columns;
  const bool integer = !input.type.generic && !is_float(input.type.dtype);
  port.type = device_type(storage(input.type, instance));
  if (columns.kind != Columns::Kind::none) port.width = width_of(columns);
  if (input.kind == ir::Input::Kind::scalar) {
    port.kind = Kind::number, port.type = Type::f32;
    return integer ? std::nullopt : std::optional(port);
  }
  if (columns.kind == Columns::Kind::none) {
    port.kind = input.dims.rows ? Kind::col_vector : Kind::scalar;
    return !input.dims.rows && integer ? std::nullopt : std::optional(port);
  }
  if (!input.dims.rows) {
    port.kind = Kind::row_vector;
    if (columns.kind == Columns::Kind::repeat) port.period = known_size(instance, columns.size);
    if (columns.kind == Columns::Kind::group) port.group = known_size(instance, columns.size);
    return port;
  }
  if (columns.kind == Columns::Kind::repeat) return std::nullopt;
  if (columns.kind == Columns::Kind::all) {
    port.kind = Kind::tile_in;
    return port.type == Type::i32 || port.type == Type::i64 ? std::nullopt : std::optional(port);
  }
  port.kind = Kind::group_in, port.group = known_size(instance, columns.size);
  return port.type == Type::f32 && port.width == Width::full ? std::optional(port) : std::nullopt;
}

std::vector<ValueId> tile_nodes(const Program& program) {
  std::vector<bool> needed(program.nodes.size());
  for (const ir::Output& output : program.outputs)
    if (stored_in_tile(program, output)) needed[output.value] = true;
  for (ValueId id : ir::live_nodes(program))
    if (const auto* n = std::get_if<ir::Reduce>(&program.nodes[id]))
      if (program.info[id].stage == Stage::complete) needed[n->arg] = true;
  std::vector<ValueId> result;
  for (size_t i = program.nodes.size(); i-- > 0;)
    if (needed[i]) {
      result.push_back(static_cast<ValueId>(i));
      for (ValueId id : expression_operands(program, static_cast<ValueId>(i))) needed[id] = true;
    }
  std::reverse(result.begin(), result.end());
  return result;
}

bool in_tile_reduction(const Program& program, ValueId id) {
  return std::holds_alternative<ir::Reduce>(program.nodes[id]) &&
         program.info[id].stage == Stage::tile;
}

void collect(const Program& program, ValueId id, std::set<ValueId>& nodes) {
  if (!nodes.insert(id).second || in_tile_reduction(program, id)) return;
  for (ValueId operand : expression_operands(program, id)) collect(program, operand, nodes);
}

int pair_offset(const Instance& instance, const ir::Node& node) {
  if (const auto* n = std::get_if<ir::Split>(&node)) return known_size(instance, n->half);
  if (const auto* n = std::get_if<ir::Join>(&node)) return known_size(instance, n->half);
  if (const auto* n = std::get_if<ir::Swap>(&node)) return known_size(instance, n->half);
  return 0;
}

int pair_of(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  bool narrow_or_wide = false;
  for (ValueId id : tile_nodes(program)) {
    if (const int pair = pair_offset(instance, program.nodes[id])) return pair;
    const Columns& columns = program.info[id].dims.columns;
    narrow_or_wide =
        narrow_or_wide || (columns.kind != Columns::Kind::none && width_of(columns) != Width::full);
  }
  return narrow_or_wide ? 8 : 0;
}

int chunk_multiple(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  int multiple = std::max(2 * pair_of(instance), 16);
  for (ValueId id : tile_nodes(program))
    if (in_tile_reduction(program, id))
      multiple =
          std::lcm(multiple,
                   known_size(instance, std::get<ir::Reduce>(program.nodes[id]).kept.columns.size));
  return multiple;
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/lower/split.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/simplify.h"

namespace coda::cuda {
namespace {

bool full_width(const ir::Dims& dims) {
  return dims.rows && dims.columns.kind == ir::Columns::Kind::all &&
         dims.columns.width == ir::symbol_size(ir::kSymbolN);
}

bool summed(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

}  // namespace

std::optional<SplitForm> split_form(const Instance& instance) {
  const ir::Program program = ir::eliminate(*instance.program);
  const auto accumulators = std::count_if(
      program.inputs.begin(), program.inputs.end(),
      [](const ir::Input& input) { return input.kind == ir::Input::Kind::accumulator; });
  if (program.outputs.size() != 1 || accumulators != 1) return std::nullopt;
  const ir::Output& output = program.outputs[0];
  if (!full_width(output.dims) || !summed(storage(output.type, instance))) return std::nullopt;
  const auto input_of = [&](ir::ValueId id) {
    const auto* n = std::get_if<ir::InputValue>(&program.nodes[id]);
    return n ? n->input : -1;
  };
  const auto is_product = [&](int input) {
    return input >= 0 && program.inputs[input].kind == ir::Input::Kind::accumulator;
  };
  if (is_product(input_of(output.value))) return SplitForm{};
  const auto* sum = std::get_if<ir::Elementwise>(&program.nodes[output.value]);
  if (!sum || sum->op != ir::Op::add) return std::nullopt;
  for (const int at : {0, 1}) {
    const int product = input_of(sum->args[at]), addend = input_of(sum->args[1 - at]);
    if (!is_product(product) || addend < 0) continue;
    const ir::Input& tile = program.inputs[addend];
    if (tile.kind == ir::Input::Kind::tensor && full_width(tile.dims) &&
        summed(storage(tile.type, instance)))
      return SplitForm{addend};
  }
  return std::nullopt;
}

device::Port split_port() { return {device::Kind::tile_out}; }

Instance split_product(const Instance& instance) {
  ir::Builder builder("product");
  const Value a = builder.input({"a", ir::Input::Kind::accumulator, {}, {}});
  const ir::Dims tile{true, {ir::Columns::Kind::all, ir::symbol_size(ir::kSymbolN), {}}};
  builder.output({"y", {false, DType::f32}, tile, builder.id(a)});
  return {std::make_shared<const ir::Program>(builder.finish()), instance.type, {0, 0}};
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/scalar/op_text.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "cuda/scalar/operands.h"

namespace coda::cuda {
namespace {

using ir::Number;
using ir::OpKind;
using ir::Overloaded;

void function(std::string& text, const ir::OpInfo& op, const char* result, const char* operand) {
  static constexpr const char* kNames[] = {"a", "b", "c"};
  std::string parameters;
  for (int i = 0; i < op.arity; ++i) {
    const bool condition = op.kind == OpKind::select && i == 0;
    parameters += fmt::format("{}{} {}", i ? ", " : "", condition ? "bool" : operand, kNames[i]);
  }
  text += fmt::format("CODA_DEVICE {} op_{}({}) {{ return {}; }}\n", result, op.name, parameters,
                      op.expression);
}

std::string real_text(double value) {
  const float rounded = static_cast<float>(value);
  if (!std::isfinite(rounded))
    return fmt::format("__uint_as_float(0x{:08X}u)", std::bit_cast<uint32_t>(rounded));
  std::string text = fmt::format("{:.9g}", rounded);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return (rounded < 0 ? "(" + text + "f)" : text + "f");
}

std::string integer_text(int64_t value) {
  if (value == INT64_MIN) return "(-9223372036854775807ll - 1)";
  return value < 0 ? fmt::format("({}ll)", value) : fmt::format("{}ll", value);
}

/// `name`, a value of class `from`, as the class that an operation expects.
std::string convert(const std::string& name, Number from, Number to) {
  if (from == to) return name;
  return to == Number::real      ? fmt::format("static_cast<float>({})", name)
         : to == Number::integer ? fmt::format("static_cast<i64>({})", name)
                                 : fmt::format("({} != 0)", name);
}

std::string elementwise_text(const ir::Program& program, const ir::Elementwise& node,
                             const Names& names) {
  const ir::OpInfo& op = ir::info(node.op);
  Number common = Number::integer;
  for (int i = op.kind == OpKind::select ? 1 : 0; i < op.arity; ++i)
    if (program.info[node.args[i]].number == Number::real) common = Number::real;
  if (op.kind == OpKind::real) common = Number::real;
  std::string arguments;
  for (int i = 0; i < op.arity; ++i) {
    const Number to = op.kind == OpKind::select && i == 0 ? Number::mask : common;
    arguments +=
        (i ? ", " : "") + convert(names.operands[i], program.info[node.args[i]].number, to);
  }
  return fmt::format("op_{}({})", op.name, arguments);
}

}  // namespace

std::string operations_text() {
  std::string text;
  for (const ir::OpInfo& op : ir::all_ops()) {
    const char* mask = "bool";
    if (op.kind != OpKind::integer)
      function(text, op, op.kind == OpKind::compare ? mask : "float", "float");
    if (op.kind != OpKind::real)
      function(text, op, op.kind == OpKind::compare ? mask : "i64", "i64");
  }
  return text;
}

const char* type_text(Number number) {
  return number == Number::real ? "float" : number == Number::integer ? "i64" : "bool";
}

std::string storage_text(DType type) { return std::string("Type::") + name_of(type); }

std::string expression_text(const ir::Program& program, ir::ValueId id, DType type,
                            std::span<const int64_t> symbols, const Names& names) {
  return std::visit(
      Overloaded{[](const ir::RealConstant& n) { return real_text(n.value); },
                 [](const ir::IntegerConstant& n) { return integer_text(n.value); },
                 [&](const ir::SizeParameter& n) {
                   return n.symbol == ir::kSymbolN   ? names.columns
                          : n.symbol == ir::kSymbolM ? names.rows
                                                     : integer_text(symbols[n.symbol]);
                 },
                 [&](const ir::Index& n) { return n.row ? names.row : names.column; },
                 [&](const ir::Elementwise& n) {
                   if (angle_product(program, id))
                     return fmt::format("{}_product({}, {})", ir::info(n.op).name,
                                        names.operands[0], names.operands[1]);
                   return elementwise_text(program, n, names);
                 },
                 [&](const ir::Round& n) {
                   return fmt::format(
                       "rounded<{}>({})", storage_text(n.type.generic ? type : n.type.dtype),
                       convert(names.operands[0], program.info[n.arg].number, Number::real));
                 },
                 [](const auto&) -> std::string {
                   throw Error(ErrorKind::internal, "cuda codegen", "a node with an expression",
                               "another");
                 }},
      program.nodes[id]);
}

}  // namespace coda::cuda

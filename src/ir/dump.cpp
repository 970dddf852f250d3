// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "ir/program.h"

namespace coda::ir {
namespace {

std::string hexadecimal(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

std::string details(const WholeOp& op) {
  const auto number = [](auto value) { return " " + std::to_string(value); };
  return std::visit(
      Overloaded{[](const auto&) { return std::string(); },
                 [&](const Product& n) { return n.segments > 1 ? number(n.segments) : ""; },
                 [&](const InputGradient& n) {
                   std::string text;
                   for (int segments : n.segments) text += number(segments);
                   return text;
                 },
                 [&](const Repeat& n) { return number(n.width); },
                 [&](const Slice& n) { return number(n.first) + number(n.width); },
                 [&](const Attention& n) { return number(n.part); }},
      op);
}

std::string node_text(const Program& program, const Node& node) {
  const auto size = [&](const Size& s) { return " " + to_string(s, program.symbols); };
  return std::visit(
      Overloaded{[](const RealConstant& n) { return "real " + hexadecimal(n.value); },
                 [](const IntegerConstant& n) { return "integer " + std::to_string(n.value); },
                 [&](const SizeParameter& n) { return "size " + program.symbols[n.symbol]; },
                 [&](const Index& n) {
                   return n.row ? "index m" : "index n" + (program.graph ? size(n.width) : "");
                 },
                 [&](const InputValue& n) { return "input " + program.inputs[n.input].name; },
                 [](const Elementwise& n) { return std::string(info(n.op).name); },
                 [](const Round& n) { return "round " + to_string(n.type); },
                 [&](const Split& n) { return "split." + std::to_string(n.part) + size(n.half); },
                 [&](const Join& n) { return "join" + size(n.half); },
                 [&](const Swap& n) { return "swap" + size(n.half) + size(n.group); },
                 [&](const Reduce& n) {
                   std::string half = n.op == ReduceOp::moments_mean  ? ".mean"
                                      : n.op == ReduceOp::moments_var ? ".var"
                                                                      : "";
                   return std::string(name_of(n.op)) + half + to_string(n.kept, program);
                 },
                 [](const Whole& n) { return std::string(name_of(n.op)) + details(n.op); }},
      node);
}

}  // namespace

std::string to_string(const ElementType& type) { return type.generic ? "T" : name_of(type.dtype); }

std::string to_string(const Dims& dims, const Program& program) {
  std::string text = dims.rows ? "m" : "";
  const Columns& columns = dims.columns;
  if (columns.kind != Columns::Kind::none) {
    if (dims.rows) text += ", ";
    const Size n = symbol_size(kSymbolN);
    text += columns.width == n                      ? "n"
            : columns.width == n * constant_size(2) ? "2n"
                                                    : to_string(columns.width, program.symbols);
    if (columns.kind == Columns::Kind::group)
      text += ":" + to_string(columns.size, program.symbols);
    if (columns.kind == Columns::Kind::repeat)
      text += " % " + to_string(columns.size, program.symbols);
  }
  return "[" + text + "]";
}

std::string dump(const Program& program) {
  static constexpr const char* kNumbers[] = {"real", "integer", "mask"};
  std::string text = "program " + program.name + "\n";
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    text += "  %" + std::to_string(i) + " = " + node_text(program, program.nodes[i]);
    for (ValueId id : operands(program.nodes[i])) text += " %" + std::to_string(id);
    const ValueInfo& value = program.info[i];
    text += std::string(" : ") + kNumbers[static_cast<int>(value.number)] + " " +
            (value.weight_rows ? "weight " + std::to_string(value.weight_rows) + " x " : "") +
            to_string(value.dims, program);
    if (value.stage == Stage::complete) text += " complete";
    const bool input = std::holds_alternative<InputValue>(program.nodes[i]);
    if (!input && !program.names[i].empty()) text += "  # " + program.names[i];
    text += "\n";
  }
  for (const Output& output : program.outputs)
    text += "  -> " + output.name + ": " + to_string(output.type) +
            to_string(output.dims, program) + " = %" + std::to_string(output.value) + "\n";
  return text;
}

}  // namespace coda::ir

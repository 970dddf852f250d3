// SPDX-License-Identifier: Apache-2.0
#include "language/printer.h"

#include <coda/error.h>

#include <charconv>
#include <cmath>

#include "language/printer_names.h"
#include "language/words.h"

namespace coda::language {
namespace {

using ir::Overloaded;
using ir::ValueId;

constexpr size_t kLineWidth = 100;
constexpr size_t kBrace = 3;  // ") {" or ", " and a brace: what may follow on a line

struct Text {
  std::string text;
  int level = kAtom;
};

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// `start` and the pieces, separated by commas, in lines that leave room for the brace after them.
std::string wrapped(std::string start, const std::vector<std::string>& pieces) {
  size_t line = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) start += ", ";
    if (i > 0 && start.size() - line + pieces[i].size() + kBrace > kLineWidth) {
      start.back() = '\n';
      line = start.size();
      start += "    ";
    }
    start += pieces[i];
  }
  return start;
}

/// A statement in lines that end after an operator or a comma.
std::string wrapped(std::string statement) {
  for (size_t line = 0; statement.size() - line > kLineWidth;) {
    size_t at = line + kLineWidth;
    while (at > line + kLineWidth / 2 &&
           (statement[at] != ' ' ||
            std::string_view("+-*/%,<>=").find(statement[at - 1]) == std::string_view::npos))
      --at;
    if (at == line + kLineWidth / 2) break;  // no place: a long name
    statement.replace(at, 1, "\n      ");
    line = at + 1;
  }
  return statement;
}

class Printer {
 public:
  explicit Printer(const ir::Program& program) : layout_(lay_out(program)) {}
  std::string run();

 private:
  const ir::Program& program() const { return layout_.program; }
  std::string size(const ir::Size& size) const { return to_string(size, program().symbols); }
  std::string header() const;
  std::string statement(ValueId id) const;
  std::string right_side(ValueId id) const { return written(program().nodes[id]).text; }
  std::string operand(ValueId id, int level) const;
  Text written(const ir::Node& node) const;
  Text elementwise(const ir::Elementwise& node) const;
  std::string arguments(const ir::Node& node) const;

  Layout layout_;
};

std::string Printer::run() {
  std::string text = header() + " {\n";
  for (size_t i = 0; i < program().nodes.size(); ++i) {
    const int id = static_cast<int>(i), pair = layout_.pair[i];
    const bool input = std::holds_alternative<ir::InputValue>(program().nodes[i]);
    if (!input && !program().names[i].empty() && (pair < 0 || pair > id))
      text += wrapped("  " + statement(id)) + "\n";
  }
  for (const ir::Output& output : program().outputs)
    if (const std::string& name = program().names[output.value]; name != output.name)
      text += "  " + output.name + " = " + name + "\n";
  return text + "}\n";
}

std::string Printer::header() const {
  std::string text = "program " + program().name;
  for (size_t i = ir::kFirstParameter; i < program().symbols.size(); ++i)
    text += (i == ir::kFirstParameter ? "<" : ", ") + program().symbols[i];
  if (program().symbols.size() > ir::kFirstParameter) text += ">";
  std::vector<std::string> pieces;
  for (const ir::Input& input : program().inputs) {
    const bool tensor = input.kind == ir::Input::Kind::tensor;
    const bool accumulator = input.kind == ir::Input::Kind::accumulator;
    pieces.push_back(input.name + ": " + (accumulator ? "acc" : to_string(input.type)) +
                     (tensor ? to_string(input.dims, program()) : ""));
  }
  text = wrapped(text + "(", pieces) + ")";
  pieces.clear();
  for (const ir::Output& output : program().outputs)
    pieces.push_back(output.name + ": " + to_string(output.type) +
                     to_string(output.dims, program()));
  const std::string outputs = wrapped("    -> ", pieces);
  const size_t line = text.size() - (text.rfind('\n') + 1);  // npos + 1 is 0
  const bool fits =
      outputs.find('\n') == std::string::npos && line + outputs.size() - 3 + kBrace <= kLineWidth;
  return text + (fits ? outputs.substr(3) : "\n" + outputs);
}

/// "y = a * b", or "x, y = split(a, h)" where `id` is one half.
std::string Printer::statement(ValueId id) const {
  const ir::Node& node = program().nodes[id];
  const auto* split = std::get_if<ir::Split>(&node);
  const auto* reduce = std::get_if<ir::Reduce>(&node);
  std::string names = program().names[id];
  if (split || (reduce && reduction(name_of(reduce->op)) == ir::ReduceOp::moments_mean)) {
    const bool second = split ? split->part == 1 : reduce->op == ir::ReduceOp::moments_var;
    const ValueId pair = layout_.pair[id];
    const std::string other = pair < 0 ? "_" : program().names[pair];
    names = second ? other + ", " + names : names + ", " + other;
  }
  return names + " = " + right_side(id);
}

std::string Printer::operand(ValueId id, int level) const {
  if (!program().names[id].empty()) return program().names[id];
  const Text text = written(program().nodes[id]);
  return text.level < level ? "(" + text.text + ")" : text.text;
}

std::string Printer::arguments(const ir::Node& node) const {
  std::string text;
  for (ValueId id : ir::operands(node)) text += (text.empty() ? "" : ", ") + operand(id, kCompare);
  return text;
}

Text Printer::elementwise(const ir::Elementwise& node) const {
  for (const Operator& row : operators()) {
    if (row.op != node.op) continue;
    const int left = row.level + (row.level == kCompare);
    return {operand(node.args[0], left) + " " + std::string(row.text) + " " +
                operand(node.args[1], row.level + 1),
            row.level};
  }
  if (node.op != ir::Op::neg)
    return {std::string(info(node.op).name) + "(" + arguments(node) + ")"};
  const std::string arg = operand(node.args[0], kAtom);
  // A number after a minus would read as a negative constant.
  const bool number = program().names[node.args[0]].empty() &&
                      (std::holds_alternative<ir::RealConstant>(program().nodes[node.args[0]]) ||
                       std::holds_alternative<ir::IntegerConstant>(program().nodes[node.args[0]]));
  return {number ? "-(" + arg + ")" : "-" + arg, kFactor};
}

Text Printer::written(const ir::Node& node) const {
  return std::visit(
      Overloaded{[&](const ir::RealConstant& n) { return Text{real_text(n.value)}; },
                 [&](const ir::IntegerConstant& n) { return Text{std::to_string(n.value)}; },
                 [&](const ir::SizeParameter& n) {
                   return Text{n.symbol == ir::kSymbolN ? "N" : program().symbols[n.symbol]};
                 },
                 [&](const ir::Index& n) { return Text{n.row ? "m" : "n"}; },
                 [&](const ir::InputValue& n) { return Text{program().inputs[n.input].name}; },
                 [&](const ir::Elementwise& n) { return elementwise(n); },
                 [&](const ir::Round& n) {
                   return Text{"round(" + arguments(n) + ", " + to_string(n.type) + ")"};
                 },
                 [&](const ir::Split& n) {
                   return Text{"split(" + arguments(n) + ", " + size(n.half) + ")"};
                 },
                 [&](const ir::Join& n) {
                   return Text{"join(" + arguments(n) + ", " + size(n.half) + ")"};
                 },
                 [&](const ir::Swap& n) {
                   return Text{"swap(" + arguments(n) + ", " + size(n.half) + ", " + size(n.group) +
                               ")"};
                 },
                 [&](const ir::Reduce& n) {
                   return Text{std::string(name_of(n.op)) + to_string(n.kept, program()) + "(" +
                               arguments(n) + ")"};
                 },
                 [](const ir::Whole& n) -> Text {
                   throw Error(ErrorKind::internal, "print", "a program", ir::name_of(n.op));
                 }},
      node);
}

}  // namespace

std::string print_program(const ir::Program& program) { return Printer(program).run(); }

std::string print(const ir::Program& program) {
  return "coda " + std::to_string(kVersion) + "\n\n" + print_program(program);
}

}  // namespace coda::language

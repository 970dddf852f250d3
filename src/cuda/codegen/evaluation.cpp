// SPDX-License-Identifier: Apache-2.0
#include "cuda/codegen/evaluation.h"

#include <fmt/format.h>

#include "cuda/scalar/op_text.h"
#include "cuda/scalar/operands.h"

namespace coda::cuda {

using ir::Columns;
using ir::Number;
using ir::Overloaded;
using ir::Size;
using ir::ValueId;
using Kind = Columns::Kind;

namespace {

const Size kTwo = ir::constant_size(2);

}  // namespace

std::string Sizes::operator()(const Size& size) const {
  int64_t top = size.numerator, bottom = size.denominator;
  std::string text;
  for (const auto& [symbol, exponent] : size.powers)
    for (int i = 0; i < std::abs(exponent); ++i) {
      if (symbol >= ir::kFirstParameter)
        (exponent > 0 ? top : bottom) *= instance.symbols[symbol];
      else
        text += (text.empty() ? "" : " * ") + std::string(symbol == ir::kSymbolN ? "p.n" : "p.m");
    }
  if (text.empty()) return fmt::format("{}ll", top / bottom);
  if (top != 1) text = fmt::format("{}ll * {}", top, text);
  return bottom == 1 ? text : fmt::format("({} / {}ll)", text, bottom);
}

std::string Sizes::count(const Columns& columns) const {
  switch (columns.kind) {
    case Kind::none:
      return "1ll";
    case Kind::all:
      return (*this)(columns.width);
    case Kind::group:
      return fmt::format("({} / {})", (*this)(columns.width), (*this)(columns.size));
    case Kind::repeat:
      return (*this)(columns.size);
  }
  return {};
}

int Evaluation::place(const Columns& columns, const std::string& variable) {
  places_.push_back({columns, variable, -1, {}});
  return static_cast<int>(places_.size()) - 1;
}

std::string Evaluation::value(ValueId id, int at) {
  const Columns& columns = program_.info[id].dims.columns;
  const int here = columns.kind == Kind::none ? -1 : narrowed(at, columns);
  if (const auto found = values_.find({id, here}); found != values_.end()) return found->second;
  const std::string text = expression(id, here);
  const std::string name = fmt::format("v{}", values_.size());
  line(fmt::format("const {} {} = {};", type_text(program_.info[id].number), name, text));
  values_[{id, here}] = name;
  return name;
}

/// Groups that only their sizes' values make equal are places of their own: what is over one group
/// is no value over the other, and a place is told by its columns.
int Evaluation::derived(int from, const Columns& columns, const std::string& text) {
  for (size_t i = 0; i < places_.size(); ++i)
    if (places_[i].from == from && places_[i].text == text && places_[i].columns == columns)
      return static_cast<int>(i);
  const std::string name = fmt::format("c{}", places_.size());
  line(fmt::format("const i64 {} = {};", name, text));
  places_.push_back({columns, name, from, text});
  return static_cast<int>(places_.size()) - 1;
}

/// The place of a value over `columns`, seen from the place `at` of its reader.
int Evaluation::narrowed(int at, const Columns& columns) {
  const Place& place = places_[at];
  if (place.columns == columns) return at;
  const char* op = columns.kind == Kind::group ? "/" : "%";
  return derived(at, columns, fmt::format("{} {} {}", place.variable, op, sizes_(columns.size)));
}

std::string Evaluation::memory(int index, Number number, int at) const {
  const ir::Input& input = program_.inputs[index];
  if (input.kind == ir::Input::Kind::scalar)
    return fmt::format("p.numbers[{}].{}", index, number == Number::real ? "real" : "integer");
  const bool product = input.kind == ir::Input::Kind::accumulator;  // a float32 matrix here
  return fmt::format("{}_at<{}>(p.views[{}], row, {})", number == Number::real ? "real" : "integer",
                     storage_text(product ? DType::f32 : storage(input.type, instance_)), index,
                     column(at));
}

std::string Evaluation::expression(ValueId id, int at) {
  const Number number = program_.info[id].number;
  return std::visit(
      Overloaded{[&](const ir::InputValue& n) { return memory(n.input, number, at); },
                 [&](const ir::Reduce&) { return reduced_(id, column(at)); },
                 [&](const ir::Split& n) -> std::string {
                   const std::string h = sizes_(n.half), c = column(at);
                   const Columns wide{Kind::all, places_[at].columns.width * kTwo, {}};
                   const std::string shift = n.part ? fmt::format(" + {}", h) : "";
                   return value(n.arg, derived(at, wide,
                                               fmt::format("{0} / {1} * (2 * {1}) + {0} % {1}{2}",
                                                           c, h, shift)));
                 },
                 [&](const ir::Join& n) -> std::string {
                   const std::string h = sizes_(n.half), c = column(at);
                   const Columns half{Kind::all, places_[at].columns.width / kTwo, {}};
                   const int inner =
                       derived(at, half, fmt::format("{0} / (2 * {1}) * {1} + {0} % {1}", c, h));
                   const std::string a = value(n.a, inner), b = value(n.b, inner);
                   return fmt::format("({} / {} & 1) ? static_cast<{}>({}) : static_cast<{}>({})",
                                      c, h, type_text(number), b, type_text(number), a);
                 },
                 [&](const ir::Swap& n) -> std::string {
                   const std::string h = sizes_(n.half), g = sizes_(n.group), c = column(at);
                   const Columns same{Kind::all, places_[at].columns.width, {}};
                   return value(
                       n.arg, derived(at, same,
                                      fmt::format("{0} + ({0} % {2} < {1} ? {1} : {0} % {2} < 2 * "
                                                  "{1} ? -{1} : 0)",
                                                  c, h, g)));
                 },
                 [&](const auto&) -> std::string {
                   std::vector<std::string> operands;
                   for (ValueId operand : expression_operands(program_, id))
                     operands.push_back(value(operand, at));
                   return expression_text(program_, id, instance_.type, instance_.symbols,
                                          {operands, "row", column(at), "p.m", "p.n"});
                 }},
      program_.nodes[id]);
}

}  // namespace coda::cuda

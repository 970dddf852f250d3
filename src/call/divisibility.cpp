// SPDX-License-Identifier: Apache-2.0
#include "call/divisibility.h"

#include <numeric>

#include "base/checked.h"
#include "call/where.h"

namespace coda {
namespace {

using ir::Columns;
using ir::Size;

void collect(const ir::Dims& dims, const ir::Node* node, std::vector<SizeUse>& uses) {
  const Columns& columns = dims.columns;
  if (columns.kind != Columns::Kind::group && columns.kind != Columns::Kind::repeat) return;
  const bool group = columns.kind == Columns::Kind::group;
  uses.push_back({&columns.width, &columns.size, group, nullptr, &dims, node});
}

std::vector<SizeUse> size_uses(const ir::Program& program) {
  std::vector<SizeUse> uses;
  for (const ir::Input& input : program.inputs) collect(input.dims, nullptr, uses);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ir::Node& node = program.nodes[i];
    const auto width = [&](ir::ValueId id) { return &program.info[id].dims.columns.width; };
    if (const auto* split = std::get_if<ir::Split>(&node)) {
      uses.push_back({width(split->arg), &split->half, 2, nullptr, nullptr, &node});
    } else if (const auto* join = std::get_if<ir::Join>(&node)) {
      uses.push_back({width(static_cast<int>(i)), &join->half, 2, nullptr, nullptr, &node});
    } else if (const auto* swap = std::get_if<ir::Swap>(&node)) {
      uses.push_back({width(swap->arg), &swap->group, 1, &swap->half, nullptr, &node});
    } else if (const auto* reduce = std::get_if<ir::Reduce>(&node)) {
      collect(reduce->kept, &node, uses);
      // A mean divides by one count: each place of a period has as many columns.
      const bool mean = reduce->op == ir::ReduceOp::mean ||
                        reduce->op == ir::ReduceOp::moments_mean ||
                        reduce->op == ir::ReduceOp::moments_var;
      if (mean && reduce->kept.columns.kind == Columns::Kind::repeat) uses.back().factor = 1;
    }
  }
  for (const ir::Output& output : program.outputs) collect(output.dims, nullptr, uses);
  return uses;
}

bool depends_on_call(const Size& size) {
  return !size.powers.empty() && size.powers.front().first < ir::kFirstParameter;
}

/// The value of a size that must be above 0.
int64_t positive(const ir::Program& program, const Size& size, const SizeUse& use,
                 const std::vector<int64_t>& symbols) {
  const auto where = [&] { return "[" + program.name + "] " + use.text(program); };
  const int64_t value = evaluate_at(size, symbols, where);
  if (value == 0)
    throw Error(ErrorKind::shape, where(), to_string(size, program.symbols) + " above 0", "0",
                "give sizes of at least one column");
  return value;
}

/// Columns per unit; checks the half of a swap on the way.
int64_t unit_columns(const ir::Program& program, const SizeUse& use,
                     const std::vector<int64_t>& symbols) {
  const int64_t size = positive(program, *use.size, use, symbols);
  if (use.half) {
    const int64_t half = positive(program, *use.half, use, symbols);
    if (half > size / 2)
      throw Error(ErrorKind::shape, "[" + program.name + "] " + use.text(program),
                  "two halves that fit into a group of " + std::to_string(size),
                  "halves of " + std::to_string(half), "choose a half of at most half the group");
  }
  return use.factor == 0 ? 0 : checked_multiply(size, use.factor, "columns of a unit");
}

}  // namespace

std::string SizeUse::text(const ir::Program& program) const {
  if (node == nullptr) return to_string(*dims, program);
  const auto name = [&](const Size& size) { return to_string(size, program.symbols); };
  if (const auto* reduce = std::get_if<ir::Reduce>(node))
    return std::string(name_of(reduce->op)) + to_string(*dims, program);
  if (half) return "swap(..., " + name(*half) + ", " + name(*size) + ")";
  const bool split = std::holds_alternative<ir::Split>(*node);
  return (split ? "split(..., " : "join(..., ") + name(*size) + ")";
}

std::pair<int64_t, int64_t> factor_of_n(const Size& width) {
  if (width.powers.size() != 1 || width.powers[0] != std::pair{ir::kSymbolN, 1})
    throw Error(ErrorKind::internal, "bind", "a width of n/2, n or 2n", "another width");
  return {width.numerator, width.denominator};
}

void check_parameters(const Instance& instance) {
  for (const SizeUse& use : size_uses(*instance.program))
    if (!depends_on_call(*use.size) && !(use.half && depends_on_call(*use.half)))
      unit_columns(*instance.program, use, instance.symbols);
}

std::vector<Unit> check_units(const ir::Program& program, const std::vector<int64_t>& symbols) {
  const int64_t n = symbols[ir::kSymbolN];
  const Where where{program, {}};
  const auto check_width = [&](const Columns& columns) {
    if (columns.kind != Columns::Kind::none && n % factor_of_n(columns.width).second != 0)
      where.refuse(ErrorKind::shape, "an even N, since values of width n/2 occur",
                   "N = " + std::to_string(n), "choose a number of columns that 2 divides");
  };
  for (const ir::ValueInfo& value : program.info) check_width(value.dims.columns);
  for (const ir::Output& output : program.outputs) check_width(output.dims.columns);
  std::vector<Unit> units;
  for (const SizeUse& use : size_uses(program)) {
    const int64_t columns = unit_columns(program, use, symbols);
    if (columns == 0) continue;
    const auto [numerator, denominator] = factor_of_n(*use.width);
    const int64_t width = checked_multiply(n, numerator, "N") / denominator;
    if (width % columns != 0)
      where.refuse(ErrorKind::shape,
                   to_string(*use.width, program.symbols) + " a multiple of " +
                       std::to_string(columns) + ", as " + use.text(program) + " needs",
                   std::to_string(width) + " columns",
                   "choose sizes that divide the columns exactly");
    units.push_back({numerator, denominator, columns, use});
  }
  return units;
}

void check_seam(const std::vector<Unit>& units, int64_t column, std::pair<int64_t, int64_t> width,
                const Where& where) {
  const auto at = [=] { return "a seam at column " + std::to_string(column); };
  const int64_t scaled = checked_multiply(column, width.second, "a seam");
  if (scaled % width.first != 0)
    where.refuse(ErrorKind::shape, "segments of an even width", at(),
                 "cut between whole columns of N");
  const int64_t full = scaled / width.first;
  for (const Unit& unit : units) {
    const int64_t across = checked_multiply(full, unit.numerator, "a seam");
    if (across % unit.denominator != 0 || across / unit.denominator % unit.columns != 0)
      where.refuse(ErrorKind::shape,
                   "segments that " + unit.use.text(where.program) + " does not reach across (" +
                       std::to_string(unit.columns) + " columns belong together)",
                   at(), "cut the segments at multiples of it");
  }
}
}  // namespace coda

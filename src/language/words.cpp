// SPDX-License-Identifier: Apache-2.0
#include "language/words.h"

#include <coda/dtype.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace coda::language {
namespace {

using ir::Op;
using ir::ReduceOp;

Operator row(Op op, Level level) { return {ir::spelling(op), op, level}; }

constexpr ReduceOp kReductions[] = {ReduceOp::sum,         ReduceOp::max,    ReduceOp::min,
                                    ReduceOp::mean,        ReduceOp::argmax, ReduceOp::logsumexp,
                                    ReduceOp::moments_mean};

constexpr std::string_view kSpecialCalls[] = {"split", "join", "swap", "round"};
constexpr std::string_view kWords[] = {"m",   "n",  "M",       "N",    "T",   "_",
                                       "acc", "fn", "program", "coda", "inf", "nan"};

}  // namespace

std::span<const Operator> operators() {
  static const std::array rows{row(Op::lt, kCompare), row(Op::le, kCompare), row(Op::eq, kCompare),
                               row(Op::ne, kCompare), row(Op::ge, kCompare), row(Op::gt, kCompare),
                               row(Op::add, kSum),    row(Op::sub, kSum),    row(Op::mul, kTerm),
                               row(Op::div, kTerm),   row(Op::rem, kTerm)};
  return rows;
}

std::optional<Op> callable_op(std::string_view name) {
  const auto op = ir::op_from_name(name);
  for (const Operator& row : operators())
    if (op == row.op) return std::nullopt;
  return op;
}

std::optional<ReduceOp> reduction(std::string_view name) {
  for (ReduceOp op : kReductions)
    if (name_of(op) == name) return op;
  return std::nullopt;
}

std::span<const std::string_view> reduction_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> result;
    for (ReduceOp op : kReductions) result.push_back(name_of(op));
    return result;
  }();
  return names;
}

std::string signature(Op op) {
  const std::string name(ir::info(op).name);
  if (op == Op::where) return name + "(c, a, b)";
  if (op == Op::clamp) return name + "(x, low, high)";
  constexpr const char* kOperands[] = {"(x)", "(a, b)", "(a, b, c)"};
  return name + kOperands[ir::info(op).arity - 1];
}

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text != "_" && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool is_reserved(std::string_view name) {
  const auto contains = [&](const auto& words) {
    return std::find(std::begin(words), std::end(words), name) != std::end(words);
  };
  return contains(kWords) || contains(kSpecialCalls) || dtype_from_name(name) || reduction(name) ||
         callable_op(name);
}

std::span<const std::string_view> callable_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> result(std::begin(kSpecialCalls), std::end(kSpecialCalls));
    for (const ir::OpInfo& op : ir::all_ops())
      if (callable_op(op.name)) result.push_back(op.name);
    for (std::string_view name : reduction_names()) result.push_back(name);
    return result;
  }();
  return names;
}

}  // namespace coda::language

// SPDX-License-Identifier: Apache-2.0
// What a node's value is, from what its operands are. The rule of tile-locality lives here alone: a
// value that is complete only after every tile was seen never meets the tile again.
#include <coda/error.h>

#include <algorithm>
#include <span>

#include "ir/program.h"

namespace coda::ir {
namespace {

using Kind = Columns::Kind;

[[noreturn]] void refuse(std::string_view where, std::string_view expected, std::string_view got,
                         std::string_view fix) {
  throw Error(ErrorKind::program, where, expected, got, fix);
}

/// "mean[m]": the reduction that a complete value was computed from.
std::string reduction_behind(const Program& program, ValueId id) {
  for (;;) {
    const Node& node = program.nodes[id];
    if (const auto* reduce = std::get_if<Reduce>(&node))
      return std::string(name_of(reduce->op)) + to_string(reduce->kept, program);
    for (ValueId operand : operands(node))
      if (program.info[operand].stage == Stage::complete) id = operand;
  }
}

std::string describe(const Program& program, ValueId id) {
  const std::string& name = program.names[id];
  const std::string dims = to_string(program.info[id].dims, program);
  std::string text = (name.empty() ? "a value over " : "'" + name + "' over ") + dims;
  if (program.info[id].stage == Stage::complete) text += " from " + reduction_behind(program, id);
  return text;
}

bool is_complete(const Program& program, ValueId id) {
  return program.info[id].stage == Stage::complete;
}

/// describe(), and why a complete value is not to be had here.
std::string describe_complete(const Program& program, ValueId id) {
  return describe(program, id) + ", which is complete only after every tile was seen";
}

constexpr std::string_view kKnown = "a value that is known while the tile is on chip";
constexpr std::string_view kSplit =
    "split the program here: store the reduction and load it in the program that follows";

/// An operation on a complete value that would spread it over the tile.
[[noreturn]] void refuse_complete(const Program& program, const Elementwise& node) {
  const std::span args(node.args.data(), static_cast<size_t>(info(node.op).arity));
  ValueId complete = -1, other = -1;
  for (ValueId id : args)
    if (is_complete(program, id) && (complete < 0 || program.info[complete].dims.is_scalar()))
      complete = id;
  const Dims& dims = program.info[complete].dims;
  for (ValueId id : args) {
    const Dims& have = program.info[id].dims;
    if (have.is_tile() || (other < 0 && !have.is_scalar() && !(have == dims))) other = id;
  }
  const std::string_view op = spelling(node.op);
  if (dims.is_scalar() || program.info[other].dims.is_tile())
    refuse(op, "operands that are known while the tile is on chip",
           describe_complete(program, complete) + ", beside the tile", kSplit);
  const std::string both = describe(program, other) + " beside " + describe(program, complete);
  if (is_complete(program, other))
    refuse(op, "complete values over the same dims", both,
           "store both and load them in the program that follows");
  const std::string over = to_string(dims, program);
  refuse(op, "a value over " + over + " or one number beside a complete value over " + over, both,
         "declare it over " + over + ", or use both over [m, n] in the program that follows");
}

/// The smallest dims that both broadcast to.
Dims join_dims(const Program& program, const Dims& a, const Dims& b, std::string_view where) {
  Dims result{a.rows || b.rows, a.columns};
  if (a.columns.kind == Kind::none) {
    result.columns = b.columns;
  } else if (b.columns.kind != Kind::none && !(a.columns == b.columns)) {
    if (!(a.columns.width == b.columns.width))
      refuse(where, "operands of one width",
             to_string(a, program) + " and " + to_string(b, program),
             "bring both to one width with split or join");
    result.columns = {Kind::all, a.columns.width, Size{}};
  }
  return result;
}

ValueInfo infer_elementwise(const Program& program, const Elementwise& node) {
  const OpInfo& op = info(node.op);
  ValueInfo result;
  bool all_integer = true;
  for (int i = 0; i < op.arity; ++i) {
    const ValueInfo& arg = program.info[node.args[i]];
    if (i > 0 && arg.weight_rows != result.weight_rows)
      refuse(op.name, "operands that both vary over tokens, or two gradients of one weight",
             describe(program, node.args[0]) + " and " + describe(program, node.args[1]),
             "a weight is an operand of matmul");
    result.weight_rows = arg.weight_rows;
    result.dims = i == 0 ? arg.dims : join_dims(program, result.dims, arg.dims, spelling(node.op));
    if (arg.stage == Stage::complete) result.stage = Stage::complete;
    const bool integer = arg.number != Number::real;
    if (op.kind == OpKind::select && i == 0) {
      if (!integer)
        refuse(spelling(node.op), "a mask or an integer as the condition",
               describe(program, node.args[0]), "compare it: where(x > 0, a, b)");
    } else if (op.kind == OpKind::integer && !integer) {
      refuse(spelling(node.op), "integer operands", describe(program, node.args[i]) + ", a float",
             "% takes indices, positions and other integers");
    } else {
      all_integer = all_integer && integer;
    }
  }
  if (result.weight_rows != 0 && node.op != Op::add)
    refuse(op.name, "values over tokens", describe(program, node.args[0]) + ", a weight",
           "a weight is an operand of matmul; gradients of one weight are added");
  if (op.kind == OpKind::compare)
    result.number = Number::mask;
  else
    result.number = op.kind != OpKind::real && all_integer ? Number::integer : Number::real;
  if (result.stage == Stage::complete && result.dims.is_tile()) refuse_complete(program, node);
  return result;
}

void require_columns(const Program& program, ValueId id, std::string_view where) {
  const ValueInfo& value = program.info[id];
  if (value.dims.columns.kind == Kind::none)
    refuse(where, "a value with columns", describe(program, id), "pairs are columns of one row");
  if (value.stage == Stage::complete)
    refuse(where, kKnown, describe_complete(program, id), "pair the columns before reducing");
}

bool is_width(const Size& width) {
  const Size n = symbol_size(kSymbolN);
  return width == n || width == n / constant_size(2) || width == n * constant_size(2);
}

ValueInfo scaled_width(const Program& program, ValueId id, const Size& factor,
                       std::string_view where) {
  ValueInfo result = program.info[id];
  const Size width = result.dims.columns.width * factor;
  if (!program.graph && !is_width(width))
    refuse(where, "a result of width n/2, n or 2n", to_string(width, program.symbols) + " columns",
           "split a value of width n or 2n, join values of width n/2 or n");
  result.dims.columns = {Kind::all, width, Size{}};
  return result;
}

/// A half without columns (a constant, one value per row) stands for every column of its half.
ValueInfo infer_join(const Program& program, const Join& node) {
  const bool first = program.info[node.a].dims.columns.kind != Kind::none;
  const ValueId wide = first ? node.a : node.b, other = first ? node.b : node.a;
  require_columns(program, wide, "join");
  const ValueInfo &a = program.info[wide], &b = program.info[other];
  if (b.dims.columns.kind != Kind::none && !(a.dims.columns.width == b.dims.columns.width))
    refuse("join", "two values of one width",
           describe(program, node.a) + " and " + describe(program, node.b),
           "bring both to one width with split or join");
  if (b.stage == Stage::complete) refuse("join", kKnown, describe_complete(program, other), kSplit);
  ValueInfo result = scaled_width(program, wide, constant_size(2), "join");
  result.dims.rows = a.dims.rows || b.dims.rows;
  result.number =
      a.number == Number::real || b.number == Number::real ? Number::real : Number::integer;
  return result;
}

ValueInfo infer_reduce(const Program& program, const Reduce& node) {
  const std::string where = std::string(name_of(node.op)) + to_string(node.kept, program);
  const ValueInfo& arg = program.info[node.arg];
  if (arg.weight_rows != 0)
    refuse(where, "values over tokens", describe(program, node.arg) + ", a weight",
           "a weight is an operand of matmul");
  if (arg.stage == Stage::complete)
    refuse(where, kKnown, describe_complete(program, node.arg),
           "reduce it in a second program: store it here and load it there");
  const Columns& kept = node.kept.columns;
  if (kept.kind == Kind::all && node.kept.rows)
    refuse(
        where, "fewer kept dimensions than the argument has", to_string(node.kept, program),
        "name what is kept: [m] is one value per row, [n] one per column, [m, n:G] one per group");
  if (kept.kind != Kind::none && arg.dims.columns.kind != Kind::none &&
      !(kept.width == arg.dims.columns.width)) {
    Dims same = node.kept;
    same.columns.width = arg.dims.columns.width;
    refuse(where, "kept columns as wide as the argument", describe(program, node.arg),
           "write " + std::string(name_of(node.op)) + to_string(same, program));
  }
  const bool over_rows = arg.dims.rows && !node.kept.rows;
  const bool over_columns =
      arg.dims.columns.kind != Kind::none && !(kept == arg.dims.columns) && kept.kind != Kind::all;
  if (!over_rows && !over_columns)
    refuse(where, "an argument with more dimensions than are kept", describe(program, node.arg),
           "nothing is left to reduce; use the value itself");
  ValueInfo result;
  result.dims = node.kept;
  result.stage = node.kept.is_tile() || program.graph ? Stage::tile : Stage::complete;
  const bool exact =
      node.op == ReduceOp::sum || node.op == ReduceOp::max || node.op == ReduceOp::min;
  if (node.op == ReduceOp::argmax || (exact && arg.number != Number::real))
    result.number = Number::integer;
  return result;
}

bool is_integer(DType type) { return !is_float(type); }

/// Whether `id` comes from a `/` of integers without a real number in between.
bool is_quotient(const Program& program, ValueId id) {
  const auto* node = std::get_if<Elementwise>(&program.nodes[id]);
  if (!node || program.info[id].number != Number::real) return false;
  bool quotient = node->op == Op::div;
  for (int i = 0; i < info(node->op).arity; ++i) {
    const bool integer = program.info[node->args[i]].number != Number::real;
    if (node->op == Op::div ? !integer : !integer && !is_quotient(program, node->args[i]))
      return false;
    quotient = quotient || !integer;
  }
  return quotient;
}

/// How to make a value fit an output over `want`.
std::string fitting(const Program& program, ValueId id, const Dims& want) {
  const ValueInfo& value = program.info[id];
  std::string fix = "declare it over " + to_string(value.dims, program);
  if (const auto* reduce = std::get_if<Reduce>(&program.nodes[id]))
    return fix + ", or keep " + to_string(want, program) + ": " + std::string(name_of(reduce->op)) +
           to_string(want, program) + "(...)";
  if (value.dims.is_tile() && !want.is_tile())
    return fix + ", or reduce it: sum" + to_string(want, program) + "(...)";
  return fix;
}

}  // namespace

std::vector<ValueId> operands(const Node& node) {
  std::vector<ValueId> result;
  with_operands(node, [&](ValueId id) {
    result.push_back(id);
    return id;
  });
  return result;
}

ValueInfo infer(const Program& program, const Node& node) {
  for (ValueId id : operands(node))
    if (id < 0 || id >= static_cast<int>(program.info.size()))
      throw Error(ErrorKind::internal, "verify", "operands defined before their use",
                  "operand %" + std::to_string(id));
  return std::visit(
      Overloaded{[](const RealConstant&) { return ValueInfo{}; },
                 [](const IntegerConstant&) {
                   return ValueInfo{{}, Number::integer};
                 },
                 [](const SizeParameter&) {
                   return ValueInfo{{}, Number::integer};
                 },
                 [&](const Index& n) {
                   const Columns columns{Kind::all, n.width, Size{}};
                   return ValueInfo{n.row ? Dims{true, {}} : Dims{false, columns}, Number::integer};
                 },
                 [&](const InputValue& n) {
                   const Input& input = program.inputs.at(n.input);
                   const bool integer = !input.type.generic && is_integer(input.type.dtype);
                   return ValueInfo{input.dims, integer ? Number::integer : Number::real,
                                    Stage::tile, input.weight_rows};
                 },
                 [&](const Elementwise& n) { return infer_elementwise(program, n); },
                 [&](const Round& n) {
                   if (!n.type.generic && is_integer(n.type.dtype))
                     refuse("round", "a float type", name_of(n.type.dtype),
                            "round(x, T) or round(x, bf16)");
                   ValueInfo result = program.info[n.arg];
                   result.number = Number::real;
                   return result;
                 },
                 [&](const Split& n) {
                   require_columns(program, n.arg, "split");
                   return scaled_width(program, n.arg, constant_size(1) / constant_size(2),
                                       "split");
                 },
                 [&](const Join& n) { return infer_join(program, n); },
                 [&](const Swap& n) {
                   require_columns(program, n.arg, "swap");
                   ValueInfo result = program.info[n.arg];
                   result.dims.columns = {Kind::all, result.dims.columns.width, Size{}};
                   return result;
                 },
                 [&](const Reduce& n) { return infer_reduce(program, n); },
                 [&](const Whole& n) {
                   if (!program.graph)
                     throw Error(ErrorKind::internal, "verify", "whole matrices in graphs alone",
                                 std::string(name_of(n.op)) + " in a program");
                   return infer_whole(program, n);
                 }},
      node);
}

void check_output(const Program& program, const Output& output) {
  const std::string where = "output '" + output.name + "'";
  if (output.value < 0 || output.value >= static_cast<int>(program.nodes.size()))
    refuse(where, "a value of that name in the body", "none", "set it: " + output.name + " = ...");
  const ValueInfo& value = program.info[output.value];
  const Columns &have = value.dims.columns, &want = output.dims.columns;
  const bool rows_fit = output.dims.rows || !value.dims.rows;
  const bool columns_fit = have.kind == Kind::none || have == want ||
                           (want.kind == Kind::all && want.width == have.width);
  if (!rows_fit || !columns_fit)
    refuse(where, "a value that fits " + to_string(output.dims, program),
           describe(program, output.value), fitting(program, output.value, output.dims));
  if (value.stage == Stage::complete && output.dims.is_tile())
    refuse(where, kKnown, describe_complete(program, output.value),
           "declare it over " + to_string(value.dims, program));
  if (!output.type.generic && is_integer(output.type.dtype) && value.number == Number::real)
    refuse(where, "a float storage type", name_of(output.type.dtype),
           is_quotient(program, output.value)
               ? "store it as f32: / gives a float, and there is no integer quotient"
               : "float values are stored as T, f32, bf16, f16, e4m3 or e5m2");
  if (!output.type.generic && output.type.dtype == DType::f64)
    refuse(where, "a storage type other than f64", "f64", "values are float32: use f32");
}

}  // namespace coda::ir

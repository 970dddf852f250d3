// SPDX-License-Identifier: Apache-2.0
#include "ir/op.h"

#include <array>

namespace coda::ir {
namespace {

constexpr std::array kOps = {
#define CODA_OP(name, arity, kind, ulps, expression, ...) \
  OpInfo{Op::name, #name, arity, OpKind::kind, ulps, #expression},
#include <coda/elementwise.def>
};

}  // namespace

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  for (const OpInfo& row : kOps)
    if (row.name == name) return row.op;
  return std::nullopt;
}

std::string_view spelling(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::rem:
      return "%";
    case Op::lt:
      return "<";
    case Op::le:
      return "<=";
    case Op::eq:
      return "==";
    case Op::ne:
      return "!=";
    case Op::ge:
      return ">=";
    case Op::gt:
      return ">";
    default:
      return info(op).name;
  }
}

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::logsumexp:
      return "logsumexp";
    case ReduceOp::argmax:
      return "argmax";
    case ReduceOp::moments_mean:
    case ReduceOp::moments_var:
      return "moments";
  }
  return "?";
}

}  // namespace coda::ir

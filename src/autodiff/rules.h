// SPDX-License-Identifier: Apache-2.0
// The table's derivative column, instantiated on values of the backward program.
#pragma once

#include <coda/value.h>

#include <functional>
#include <optional>

#include "ir/op.h"

namespace coda::autodiff {

/// A forward value that the backward program would need; asked for only where a rule uses it, so
/// that what no rule uses is neither saved nor recomputed.
class Primal {
 public:
  Primal(const std::function<Value(int)>& get, int id) : get_(&get), id_(id) {}
  operator Value() const { return (*get_)(id_); }  // NOLINT: rules read as arithmetic

 private:
  const std::function<Value(int)>* get_;
  int id_;
};

inline Value greater(Value a, Value b) { return max(a, b); }

/// The adjoint of operand `operand` of `op`, given adjoint g of its result; nothing where the table
/// says NONE.
inline std::optional<Value> derivative(ir::Op op, int operand, Primal a, Primal b, Primal c,
                                       Primal y, Value g) {
  constexpr std::nullopt_t NONE = std::nullopt;
  (void)a, (void)b, (void)c, (void)y;
  switch (op) {
#define CODA_OP(name, arity, kind, ulps, expression, da, db, dc) \
  case ir::Op::name:                                             \
    if (operand == 0) return da;                                 \
    if (operand == 1) return db;                                 \
    return dc;
#include <coda/elementwise.def>
  }
  return NONE;
}

}  // namespace coda::autodiff

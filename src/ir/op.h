// SPDX-License-Identifier: Apache-2.0
// The elementwise operations as an enum with their properties, read from <coda/elementwise.def>.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace coda::ir {

enum class Op : unsigned char {
#define CODA_OP(name, ...) name,
#include <coda/elementwise.def>
};

enum class OpKind : unsigned char { real, number, integer, compare, select };

struct OpInfo {
  Op op;
  std::string_view name;
  int arity;
  OpKind kind;
  double ulps;                  // error of one float32 evaluation
  std::string_view expression;  // over a, b, c
};

std::span<const OpInfo> all_ops();
const OpInfo& info(Op op);
std::optional<Op> op_from_name(std::string_view name);

/// The operation as the text writes it: "*", "exp".
std::string_view spelling(Op op);

enum class ReduceOp : unsigned char {
  sum,
  max,
  min,
  mean,
  logsumexp,
  argmax,
  moments_mean,
  moments_var
};

/// The name in the text: both halves of moments are "moments".
std::string_view name_of(ReduceOp op);

}  // namespace coda::ir

// SPDX-License-Identifier: Apache-2.0
// The words and operators of the language, shared by parser and printer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/op.h"

namespace coda::language {

inline constexpr int kVersion = 1;

/// Binding strength, weakest first. A comparison takes one operator, the others group to the left.
enum Level : int { kCompare = 1, kSum, kTerm, kFactor, kAtom };

struct Operator {
  std::string_view text;
  ir::Op op;
  Level level;
};

/// The binary operators.
std::span<const Operator> operators();

/// The operation written as a call of this name; none for those that are written as binary
/// operators.
std::optional<ir::Op> callable_op(std::string_view name);

/// The reduction of this name; moments gives its first half.
std::optional<ir::ReduceOp> reduction(std::string_view name);

std::span<const std::string_view> reduction_names();

/// "clamp(x, low, high)"
std::string signature(ir::Op op);

/// A letter or underscore, then letters, digits and underscores, and not "_" alone.
bool is_name(std::string_view text);

/// Words that no value, program, size or fn can be called.
bool is_reserved(std::string_view name);

/// All names that may stand before a bracket.
std::span<const std::string_view> callable_names();

}  // namespace coda::language

// SPDX-License-Identifier: Apache-2.0
// CUDA text of single operations, from the same table the CPU backend is compiled from.
#pragma once

#include <coda/dtype.h>

#include <span>
#include <string>

#include "ir/program.h"

namespace coda::cuda {

/// One device function per elementwise operation and number class, `op_NAME`, for namespace
/// coda::device. Expressions are over float (real), i64 (integer) and bool (mask).
std::string operations_text();

/// "float", "i64" or "bool".
const char* type_text(ir::Number number);

/// The expression of an elementwise, round, constant, size or index node. `names.operands` follow
/// expression_operands(); symbols[i] is the value of size parameter i.
struct Names {
  std::span<const std::string> operands;
  std::string row, column;    // index expressions
  std::string rows, columns;  // count expressions
};
std::string expression_text(const ir::Program& program, ir::ValueId id, DType type,
                            std::span<const int64_t> symbols, const Names& names);

/// "Type::bf16".
std::string storage_text(DType type);

}  // namespace coda::cuda

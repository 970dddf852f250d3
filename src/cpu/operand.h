// SPDX-License-Identifier: Apache-2.0
// Checks of the tensors that the opaque operations take (attention, embeddings): unlike a program's
// arguments they have fixed shapes and packed rows, and there is no program to bind them to.
#pragma once

#include <coda/tensor.h>

#include <span>
#include <string>
#include <string_view>

namespace coda::cpu {

/// A tensor with the names that messages give it.
struct Operand {
  std::string_view operation;  // "attention"
  std::string_view name;       // "qkv"
  const TensorView& view;
  bool output = false;

  /// "[attention] argument 'qkv'"
  std::string where() const;
};

/// A matrix of host memory [rows, columns], its columns side by side, its rows `columns` or more
/// elements apart. `rows_text` and `columns_text` say where the extents come from.
void check_matrix(const Operand& operand, int64_t rows, std::string_view rows_text, int64_t columns,
                  std::string_view columns_text);

/// A vector of host memory, of any stride.
void check_vector(const Operand& operand, int64_t size, std::string_view size_text);

/// One of several storage types; `fix` says what to do otherwise.
void check_type(const Operand& operand, std::span<const DType> types, std::string_view fix);

/// Memory for a workspace of `bytes`.
void check_workspace(std::string_view operation, const void* workspace, size_t bytes);

/// That no output shares memory with another operand. Every operand was checked before.
void check_overlap(std::span<const Operand> operands);

}  // namespace coda::cpu

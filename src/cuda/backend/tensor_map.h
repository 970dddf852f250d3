// SPDX-License-Identifier: Apache-2.0
// TMA descriptors of matrices, and which matrices can have one.
#pragma once

#include <string>
#include <vector>

#include "call/call.h"
#include "cuda/plan/plan.h"

namespace coda::cuda {

/// A matrix whose rows are contiguous, as TMA sees it.
struct TmaMatrix {
  std::byte* data;
  int64_t rows, columns, pitch;  // in elements
  DType type;
};

/// Why rows x columns of a view, contiguous along columns, can have no descriptor; empty where it
/// can. A null address counts as aligned.
std::string tma_problem(const View& view, int64_t rows, int64_t columns);

TmaMatrix tma_matrix(const View& view, int64_t rows, int64_t columns);
/// A view with rows and columns exchanged.
View turned(const View& view);

device::TensorMap make_tensor_map(const TmaMatrix& matrix, int box_columns, int box_rows,
                                  int swizzle_bytes);

/// Rows or columns [begin, end) of a binding that is one segment, or has them in one of its
/// segments along that axis.
struct Slice {
  View view;
  int64_t length;
};
Slice slice_of(const Binding& binding, Axis axis, int64_t begin, int64_t end);

}  // namespace coda::cuda

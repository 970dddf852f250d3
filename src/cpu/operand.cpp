// SPDX-License-Identifier: Apache-2.0
#include "cpu/operand.h"

#include <coda/error.h>

#include <algorithm>

#include "base/checked.h"
#include "call/overlap.h"

namespace coda::cpu {
namespace {

void check_memory(const Operand& operand, bool empty) {
  const TensorView& view = operand.view;
  if (view.device.kind != Device::Kind::cpu)
    throw Error(ErrorKind::argument, operand.where(), "memory of the CPU",
                "memory of CUDA device " + std::to_string(view.device.index),
                "copy the tensor to the CPU");
  if (empty) return;
  if (view.data == nullptr)
    throw Error(ErrorKind::argument, operand.where(), "memory", "a null pointer",
                "pass the tensor's data");
  const size_t size = size_of(view.dtype);
  const size_t beyond = reinterpret_cast<uintptr_t>(view.data) % size;
  if (beyond != 0)
    throw Error(ErrorKind::argument, operand.where(),
                "an address that is a multiple of " + std::to_string(size) + ", the size of " +
                    name_of(view.dtype),
                std::to_string(beyond) + " bytes beyond one",
                "start the tensor at a whole element");
}

void check_extent(const Operand& operand, int axis, int64_t expected, std::string_view text) {
  const int64_t got = operand.view.shape[axis];
  const bool rows = operand.view.rank == 2 && axis == 0;
  const std::string what = operand.view.rank == 1 ? " elements" : rows ? " rows" : " columns";
  if (got != expected)
    throw Error(ErrorKind::shape, operand.where(),
                std::to_string(expected) + what + ", " + std::string(text), std::to_string(got),
                "pass a view of that shape");
}

void check_rank(const Operand& operand, int rank) {
  if (operand.view.rank != rank)
    throw Error(ErrorKind::shape, operand.where(), rank == 1 ? "a vector" : "a matrix",
                "rank " + std::to_string(operand.view.rank), "pass a view of that rank");
}

/// That the last element's offset in bytes fits.
void check_end(const Operand& operand, int64_t count, int64_t stride, int64_t last) {
  const int64_t elements =
      checked_add(checked_multiply(std::max<int64_t>(count - 1, 0), stride, operand.where()), last,
                  operand.where());
  checked_multiply(elements, static_cast<int64_t>(size_of(operand.view.dtype)), operand.where());
}

Region region(const TensorView& view) {
  const bool matrix = view.rank == 2;
  const View flat{static_cast<std::byte*>(view.data), matrix ? view.strides[0] : 0,
                  view.strides[matrix ? 1 : 0], view.dtype};
  return region_of(flat, matrix ? view.shape[0] : 1, view.shape[matrix ? 1 : 0]);
}

}  // namespace

std::string Operand::where() const {
  return "[" + std::string(operation) + "] argument '" + std::string(name) + "'";
}

void check_matrix(const Operand& operand, int64_t rows, std::string_view rows_text, int64_t columns,
                  std::string_view columns_text) {
  const TensorView& view = operand.view;
  check_rank(operand, 2);
  check_extent(operand, 0, rows, rows_text);
  check_extent(operand, 1, columns, columns_text);
  if (columns > 1 && view.strides[1] != 1)
    throw Error(ErrorKind::shape, operand.where(), "columns side by side (stride 1)",
                "column stride " + std::to_string(view.strides[1]), "copy the tensor to such rows");
  if (rows > 1 && view.strides[0] < columns)
    throw Error(ErrorKind::shape, operand.where(),
                "rows at least " + std::to_string(columns) + " elements apart",
                "row stride " + std::to_string(view.strides[0]), "pass the pitch of the matrix");
  check_end(operand, rows, view.strides[0], columns);
  check_memory(operand, rows == 0 || columns == 0);
}

void check_vector(const Operand& operand, int64_t size, std::string_view size_text) {
  const TensorView& view = operand.view;
  check_rank(operand, 1);
  check_extent(operand, 0, size, size_text);
  if (view.strides[0] < 0)
    throw Error(ErrorKind::shape, operand.where(), "a stride of at least 0",
                std::to_string(view.strides[0]), "copy the tensor into ascending order");
  check_end(operand, size, view.strides[0], 1);
  check_memory(operand, size == 0);
}

void check_type(const Operand& operand, std::span<const DType> types, std::string_view fix) {
  std::string names;
  for (size_t i = 0; i < types.size(); ++i) {
    if (operand.view.dtype == types[i]) return;
    if (i > 0) names += i + 1 == types.size() ? " or " : ", ";
    names += name_of(types[i]);
  }
  throw Error(ErrorKind::dtype, operand.where(), names, name_of(operand.view.dtype), fix);
}

void check_workspace(std::string_view operation, const void* workspace, size_t bytes) {
  if (workspace == nullptr && bytes > 0)
    throw Error(ErrorKind::argument, "[" + std::string(operation) + "] argument 'workspace'",
                std::to_string(bytes) + " bytes", "a null pointer",
                "allocate what the workspace function returns");
}

void check_overlap(std::span<const Operand> operands) {
  for (const Operand& output : operands) {
    if (!output.output) continue;
    for (const Operand& other : operands)
      if (&other != &output && overlap(region(output.view), region(other.view)))
        throw Error(ErrorKind::argument, output.where(),
                    "memory that nothing else of the call uses",
                    std::string("memory shared with ") + (other.output ? "output '" : "input '") +
                        std::string(other.name) + "'",
                    "give it its own memory");
  }
}

}  // namespace coda::cpu

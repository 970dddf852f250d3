// SPDX-License-Identifier: Apache-2.0
#include "call/resolve.h"

namespace coda {
namespace {

constexpr const char* kRankNames[] = {"a number in memory (rank 0)", "a vector (rank 1)",
                                      "a matrix (rank 2)"};

std::string device_text(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

bool same_device(Device a, Device b) {
  return a.kind == b.kind && (a.kind == Device::Kind::cpu || a.index == b.index);
}

/// The end of the last element lies below 2^63 bytes from the start, and the address does not wrap.
bool end_fits(const TensorView& view, int64_t rows, int64_t columns, int64_t row_stride,
              int64_t column_stride) {
  if (rows == 0 || columns == 0) return true;
  int64_t down, across, elements, bytes;
  uintptr_t end;
  return !__builtin_mul_overflow(rows - 1, row_stride, &down) &&
         !__builtin_mul_overflow(columns - 1, column_stride, &across) &&
         !__builtin_add_overflow(down, across, &elements) &&
         !__builtin_add_overflow(elements, int64_t{1}, &elements) &&
         !__builtin_mul_overflow(elements, static_cast<int64_t>(size_of(view.dtype)), &bytes) &&
         !__builtin_add_overflow(reinterpret_cast<uintptr_t>(view.data),
                                 static_cast<uintptr_t>(bytes), &end);
}

void check_layout(const TensorView& view, const Expected& expected, const Where& where) {
  const int rank = expected.rows + expected.columns;
  if (view.rank != rank)
    where.refuse(ErrorKind::shape, kRankNames[rank], "rank " + std::to_string(view.rank),
                 "pass a view of that rank");
  for (int i = 0; i < rank; ++i) {
    if (view.shape[i] < 0)
      where.refuse(ErrorKind::shape, "extents of at least 0", std::to_string(view.shape[i]),
                   "pass the real shape");
    if (view.strides[i] < 0)
      where.refuse(ErrorKind::shape, "strides of at least 0", std::to_string(view.strides[i]),
                   "copy the tensor into ascending order");
  }
}

void check_memory(const TensorView& view, bool empty, const Expected& expected,
                  const Where& where) {
  if (!same_device(view.device, expected.device))
    where.refuse(ErrorKind::argument, "memory of " + device_text(expected.device),
                 "memory of " + device_text(view.device), "copy the tensor to the kernel's device");
  if (empty) return;
  if (view.data == nullptr && expected.memory == Memory::required)
    where.refuse(ErrorKind::argument, "memory", "a null pointer", "pass the tensor's data");
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  if (address % size_of(view.dtype) != 0)
    where.refuse(ErrorKind::argument,
                 "an address that is a multiple of " + std::to_string(size_of(view.dtype)) +
                     ", the size of " + name_of(view.dtype),
                 std::to_string(address % size_of(view.dtype)) + " bytes beyond one",
                 "start the tensor at a whole element");
}

}  // namespace

Binding resolve(Axis axis, std::span<const TensorView> segments, DType type,
                const Expected& expected, Where where) {
  if (segments.empty())
    where.refuse(ErrorKind::argument, "at least one segment", "none",
                 "pass the tensors side by side");
  const bool along_rows = axis == Axis::rows;
  if (segments.size() > 1 && !(along_rows ? expected.rows : expected.columns))
    where.refuse(ErrorKind::shape,
                 along_rows ? "one tensor, since it has no rows to cut"
                            : "one tensor, since it has no columns to cut",
                 std::to_string(segments.size()) + " segments",
                 "pass one tensor, or name the other axis");
  Binding binding;
  binding.axis = axis;
  int64_t end = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const TensorView& view = segments[i];
    if (segments.size() > 1) where.segment = static_cast<int>(i);
    check_layout(view, expected, where);
    if (view.dtype != type)
      where.refuse(ErrorKind::dtype, name_of(type), name_of(view.dtype), expected.type_fix);
    const int64_t rows = expected.rows ? view.shape[0] : 1;
    const int64_t columns = expected.columns ? view.shape[expected.rows] : 1;
    const int64_t row_stride = expected.rows ? view.strides[0] : 0;
    const int64_t column_stride = expected.columns ? view.strides[expected.rows] : 0;
    check_memory(view, rows == 0 || columns == 0, expected, where);
    if (!end_fits(view, rows, columns, row_stride, column_stride))
      where.refuse(ErrorKind::shape, "a view that ends below 2^63 bytes",
                   std::to_string(rows) + " x " + std::to_string(columns) +
                       " elements of strides " + std::to_string(row_stride) + ", " +
                       std::to_string(column_stride),
                   "use smaller sizes or strides");
    int64_t& across = along_rows ? binding.columns : binding.rows;
    if (i == 0) {
      across = along_rows ? columns : rows;
    } else if (across != (along_rows ? columns : rows)) {
      where.refuse(
          ErrorKind::shape,
          std::to_string(across) + (along_rows ? " columns" : " rows") + " as in segment 0",
          std::to_string(along_rows ? columns : rows), "give segments of one height or width");
    }
    const int64_t begin = end;
    if (__builtin_add_overflow(end, along_rows ? rows : columns, &end))
      where.refuse(ErrorKind::shape, "extents that sum to less than 2^63", "more",
                   "use smaller sizes");
    if (end == begin && !binding.segments.empty()) continue;
    if (!binding.segments.empty() && binding.segments.back().end == binding.segments.back().begin)
      binding.segments.clear();
    binding.segments.push_back(
        {begin, end, {static_cast<std::byte*>(view.data), row_stride, column_stride, view.dtype}});
  }
  (along_rows ? binding.rows : binding.columns) = end;
  return binding;
}

}  // namespace coda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/tensor_map.h"

#include <coda/error.h>

#include <utility>

#include "cuda/runtime/context.h"

namespace coda::cuda {
namespace {

constexpr int64_t kAlignment = 16;  // of addresses and pitches, in bytes

int64_t bytes_of(DType type) { return static_cast<int64_t>(size_of(type)); }

int map_type(DType type) {
  switch (type) {
    case DType::f32:
      return kMapF32;
    case DType::bf16:
      return kMapBf16;
    case DType::f16:
      return kMapF16;
    default:
      return kMapU8;
  }
}

}  // namespace

std::string tma_problem(const View& view, int64_t rows, int64_t columns) {
  if (columns > 1 && view.column_stride != 1) return "has no contiguous rows";
  if (reinterpret_cast<uintptr_t>(view.data) % kAlignment != 0)
    return "starts at no multiple of 16 bytes";
  if (rows <= 1) return "";
  const int64_t pitch = view.row_stride * bytes_of(view.dtype);
  if (view.row_stride < columns) return "has rows that overlap";
  if (pitch % kAlignment != 0)
    return "has rows " + std::to_string(pitch) + " bytes apart, no multiple of 16";
  return pitch < int64_t{1} << 40 ? "" : "has rows 2^40 bytes apart or more";
}

TmaMatrix tma_matrix(const View& view, int64_t rows, int64_t columns) {
  const int64_t unit = kAlignment / bytes_of(view.dtype);
  const int64_t pitch = rows > 1 ? view.row_stride : (columns + unit - 1) / unit * unit;
  return {view.data, rows, columns, pitch, view.dtype};
}

View turned(const View& view) {
  return {view.data, view.column_stride, view.row_stride, view.dtype};
}

device::TensorMap make_tensor_map(const TmaMatrix& matrix, int box_columns, int box_rows,
                                  int swizzle_bytes) {
  const uint64_t extents[2] = {static_cast<uint64_t>(matrix.columns),
                               static_cast<uint64_t>(matrix.rows)};
  const uint64_t strides[1] = {static_cast<uint64_t>(matrix.pitch * bytes_of(matrix.type))};
  const uint32_t box[2] = {static_cast<uint32_t>(box_columns), static_cast<uint32_t>(box_rows)};
  const uint32_t steps[2] = {1, 1};
  const int swizzle = swizzle_bytes == 128  ? kSwizzle128
                      : swizzle_bytes == 64 ? kSwizzle64
                                            : kSwizzle32;
  device::TensorMap map;
  check(
      driver().cuTensorMapEncodeTiled(&map, map_type(matrix.type), 2, matrix.data, extents, strides,
                                      box, steps, kNoInterleave, swizzle, kPromote256, kFillZeros),
      "cuTensorMapEncodeTiled");
  return map;
}

Slice slice_of(const Binding& binding, Axis axis, int64_t begin, int64_t end) {
  const bool whole = binding.segments.size() == 1;
  for (const Segment& s : binding.segments) {
    if (!whole && (binding.axis != axis || begin < s.begin || begin >= s.end)) continue;
    View view = s.view;
    const int64_t step = axis == Axis::rows ? view.row_stride : view.column_stride;
    view.data += (begin - (whole ? 0 : s.begin)) * step * bytes_of(view.dtype);
    return {view, end - begin};
  }
  throw Error(ErrorKind::internal, "slice", "a segment at " + std::to_string(begin), "none");
}

}  // namespace coda::cuda

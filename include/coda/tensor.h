// SPDX-License-Identifier: Apache-2.0
// A view of caller-owned memory: what every tensor argument is.
#pragma once

#include <coda/dtype.h>

#include <cstdint>

namespace coda {

struct Device {
  enum class Kind : unsigned char { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// A scalar (rank 0), vector (rank 1) or matrix (rank 2). Strides count elements and are not
/// negative; a stride of 0 repeats one element and is allowed on inputs. The memory is never owned;
/// inputs are never written, though the pointer is not const.
struct TensorView {
  void* data = nullptr;
  int rank = 0;
  int64_t shape[2] = {1, 1};
  int64_t strides[2] = {0, 0};
  DType dtype = DType::f32;
  Device device;
};

/// Contiguous vector [size].
inline TensorView vector_view(const void* data, int64_t size, DType dtype, Device device = {}) {
  return {const_cast<void*>(data), 1, {size, 1}, {1, 0}, dtype, device};
}

/// Row-major matrix [rows, columns] whose rows start `pitch` elements apart (0: columns).
inline TensorView matrix_view(const void* data, int64_t rows, int64_t columns, DType dtype,
                              int64_t pitch = 0, Device device = {}) {
  return {const_cast<void*>(data), 2, {rows, columns}, {pitch ? pitch : columns, 1}, dtype, device};
}

/// The same memory with rows and columns exchanged.
inline TensorView transposed(TensorView view) {
  return {
      view.data,  view.rank,  {view.shape[1], view.shape[0]}, {view.strides[1], view.strides[0]},
      view.dtype, view.device};
}

/// One number in memory.
inline TensorView scalar_view(const void* data, DType dtype, Device device = {}) {
  return {const_cast<void*>(data), 0, {1, 1}, {0, 0}, dtype, device};
}

}  // namespace coda

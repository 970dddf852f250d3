// SPDX-License-Identifier: Apache-2.0
// The matrix product on one tile. Two implementations: oneDNN, and plain C++ for builds without it.
#pragma once

#include <coda/dtype.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpu/isa.h"

namespace coda::cpu {

/// rows x k elements; strides count elements, one of them is 1 (where its dimension has several),
/// and no two elements share memory.
struct Panel {
  const std::byte* data = nullptr;
  int64_t row_stride = 0, k_stride = 0;
  DType dtype = DType::f32;
};

class Mainloop {
 public:
  /// What one worker uses; not shared between threads.
  class Session {
   public:
    virtual ~Session() = default;
    /// c [m, n] = a [m, k] b [n, k] transposed, or added to c; m, n and k are above 0, rows of c
    /// lie `ldc` floats apart.
    virtual void multiply(int64_t m, int64_t n, int64_t k, const Panel& a, const Panel& b, float* c,
                          int64_t ldc, bool accumulate) = 0;
  };

  virtual ~Mainloop() = default;
  /// Whether it multiplies this storage type at full speed; others are widened to float32 first.
  virtual bool takes(DType type) const = 0;
  virtual std::unique_ptr<Session> session() const = 0;
  virtual const char* name() const = 0;
};

std::shared_ptr<const Mainloop> make_plain_mainloop(Isa isa);

/// Null in a build without oneDNN.
std::shared_ptr<const Mainloop> make_onednn_mainloop();

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt: C [M, N] = A [M, K] B [N, K]^T (+ C) with a row-major float32 C and
// operands that are contiguous along M, N or K. Float32 throughout (no TF32), and deterministic:
// split sums go through the workspace in a fixed order.
#pragma once

#include <memory>

#include "cuda/backend/gpu.h"

namespace coda::cuda {

[[noreturn]] void throw_lt_error(CublasStatus status, const char* call);
inline void check_lt(CublasStatus status, const char* call) {
  if (status != 0) throw_lt_error(status, call);
}

/// Bytes of workspace that a product may use.
inline constexpr int64_t kProductWorkspace = 32 << 20;

struct Operand {
  bool k_contiguous = true;  // rows of K; otherwise columns of M (or N)
  int64_t pitch = 0;         // between them, in elements
  int alignment = 16;        // of the address, in bytes; a power of two up to 256
  bool operator==(const Operand&) const = default;
};

struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  LtType type = kLtBf16;
  LtType out_type = kLtF32;
  Operand a, b;
  int64_t out_pitch = 0;
  int out_alignment = 16;
  bool accumulate = false;
  bool operator==(const ProductShape&) const = default;
};

/// cuBLASLt's descriptions of one product and the algorithm that its heuristic names.
class ProductPlan {
 public:
  ProductPlan(const Gpu& gpu, const ProductShape& shape);
  ProductPlan(const ProductPlan&) = delete;
  ProductPlan& operator=(const ProductPlan&) = delete;
  ~ProductPlan();

  void run(const Gpu& gpu, const void* a, const void* b, void* out, void* workspace,
           StreamHandle stream) const;

 private:
  void release();

  LtMatmul matmul_ = nullptr;
  LtLayout a_ = nullptr, b_ = nullptr, out_ = nullptr;
  LtAlgorithm algorithm_{};
  bool accumulate_;
};

/// The power of two, up to 256, that an address is a multiple of.
int alignment_of(const void* address);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/products.h"

#include <coda/error.h>

#include <algorithm>

namespace coda::cuda {

void throw_lt_error(CublasStatus status, const char* call) {
  const char* name = cublas_lt().cublasLtGetStatusName(status);
  throw Error(ErrorKind::device, std::string("[cuda] ") + call, "success",
              name != nullptr ? name : "status " + std::to_string(status));
}

int alignment_of(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  return static_cast<int>(value == 0 ? 256 : std::min<uintptr_t>(value & (~value + 1), 256));
}

// cuBLASLt counts in columns: the row-major C is its [N, M] matrix, so its first operand is B.
ProductPlan::ProductPlan(const Gpu& gpu, const ProductShape& shape)
    : accumulate_(shape.accumulate) {
  const CublasLt& lt = cublas_lt();
  const ContextGuard guard(gpu.context());
  LtPreference preference = nullptr;
  try {
    check_lt(lt.cublasLtMatmulDescCreate(&matmul_, kLtComputeF32, kLtF32),
             "cublasLtMatmulDescCreate");
    const auto set = [&](LtMatmulAttribute attribute, int value) {
      check_lt(lt.cublasLtMatmulDescSetAttribute(matmul_, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
    };
    set(kLtTransposeA, shape.b.k_contiguous);
    set(kLtTransposeB, !shape.a.k_contiguous);
    const auto layout = [&](LtLayout* to, const Operand& operand, int64_t rows) {
      const auto k = static_cast<uint64_t>(shape.k), r = static_cast<uint64_t>(rows);
      check_lt(lt.cublasLtMatrixLayoutCreate(to, shape.type, operand.k_contiguous ? k : r,
                                             operand.k_contiguous ? r : k, operand.pitch),
               "cublasLtMatrixLayoutCreate");
    };
    layout(&a_, shape.a, shape.m);
    layout(&b_, shape.b, shape.n);
    check_lt(lt.cublasLtMatrixLayoutCreate(&out_, shape.out_type, static_cast<uint64_t>(shape.n),
                                           static_cast<uint64_t>(shape.m), shape.out_pitch),
             "cublasLtMatrixLayoutCreate");
    check_lt(lt.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](LtPreferenceAttribute attribute, const auto& value) {
      check_lt(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(kLtWorkspaceBytes, static_cast<uint64_t>(kProductWorkspace));
    prefer(kLtReductionSchemes, static_cast<uint32_t>(kLtReduceInComputeType));
    prefer(kLtAlignmentA, static_cast<uint32_t>(shape.b.alignment));
    prefer(kLtAlignmentB, static_cast<uint32_t>(shape.a.alignment));
    prefer(kLtAlignmentC, static_cast<uint32_t>(shape.out_alignment));
    prefer(kLtAlignmentD, static_cast<uint32_t>(shape.out_alignment));
    LtHeuristic best{};
    int count = 0;
    const CublasStatus status = lt.cublasLtMatmulAlgoGetHeuristic(
        gpu.lt(), matmul_, b_, a_, out_, out_, preference, 1, &best, &count);
    lt.cublasLtMatmulPreferenceDestroy(preference);
    preference = nullptr;
    if (status != 0 || count == 0)
      throw Error(ErrorKind::unsupported, "[cuda] cublasLtMatmulAlgoGetHeuristic",
                  "an algorithm for " + std::to_string(shape.m) + " x " + std::to_string(shape.n) +
                      " x " + std::to_string(shape.k),
                  "none");
    algorithm_ = best.algorithm;
  } catch (...) {
    if (preference != nullptr) lt.cublasLtMatmulPreferenceDestroy(preference);
    release();
    throw;
  }
}

ProductPlan::~ProductPlan() { release(); }

void ProductPlan::release() {
  const CublasLt& lt = cublas_lt();
  for (LtLayout layout : {a_, b_, out_})
    if (layout != nullptr) lt.cublasLtMatrixLayoutDestroy(layout);
  if (matmul_ != nullptr) lt.cublasLtMatmulDescDestroy(matmul_);
}

void ProductPlan::run(const Gpu& gpu, const void* a, const void* b, void* out, void* workspace,
                      StreamHandle stream) const {
  const float alpha = 1, beta = accumulate_ ? 1 : 0;
  check_lt(cublas_lt().cublasLtMatmul(gpu.lt(), matmul_, &alpha, b, b_, a, a_, &beta, out, out_,
                                      out, out_, &algorithm_, workspace,
                                      static_cast<size_t>(kProductWorkspace), stream),
           "cublasLtMatmul");
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#define CODA_GEMM baseline_gemm
#include "cpu/gemm_impl.h"

namespace coda::cpu {
void CODA_GEMM(Kernels& table) { table.gemm = gemm, table.gemm_scratch = gemm_scratch; }
}  // namespace coda::cpu

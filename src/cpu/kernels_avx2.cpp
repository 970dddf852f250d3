// SPDX-License-Identifier: Apache-2.0
#define CODA_KERNELS avx2_kernels
#define CODA_GEMM avx2_gemm
#include "cpu/table_impl.h"

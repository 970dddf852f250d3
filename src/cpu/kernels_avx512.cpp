// SPDX-License-Identifier: Apache-2.0
#define CODA_KERNELS avx512_kernels
#define CODA_GEMM avx512_gemm
#include "cpu/table_impl.h"

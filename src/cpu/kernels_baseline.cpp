// SPDX-License-Identifier: Apache-2.0
#define CODA_KERNELS baseline_kernels
#define CODA_GEMM baseline_gemm
#include "cpu/table_impl.h"

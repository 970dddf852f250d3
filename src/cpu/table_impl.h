// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set. The file that includes this names it by CODA_KERNELS.
#pragma once

#include "cpu/elementwise_impl.h"
#include "cpu/memory_impl.h"
#include "cpu/pairs_impl.h"
#include "cpu/reduce_impl.h"

namespace coda::cpu {

void CODA_GEMM(Kernels& table);

void CODA_KERNELS(Kernels& table) {
  fill_elementwise(table);
  fill_memory(table);
  fill_pairs(table);
  fill_reducers(table);
  CODA_GEMM(table);
}

}  // namespace coda::cpu

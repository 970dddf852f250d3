// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention_kernels.h"

#include <array>

namespace coda::cpu {

void baseline_attention(AttentionKernels& table);
#ifdef CODA_WIDE_KERNELS
void avx2_attention(AttentionKernels& table);
void avx512_attention(AttentionKernels& table);
#endif

const AttentionKernels& attention_kernels(Isa isa) {
  static const std::array<AttentionKernels, 3> tables = [] {
    std::array<AttentionKernels, 3> made{};
    baseline_attention(made[0]);
#ifdef CODA_WIDE_KERNELS
    if (supports(Isa::avx2)) avx2_attention(made[1]);
    if (supports(Isa::avx512)) avx512_attention(made[2]);
#endif
    return made;
  }();
  return tables[static_cast<int>(isa)];
}

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention_impl.h"

namespace coda::cpu {
void baseline_attention(AttentionKernels& table) { fill(table); }
}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
// The checks of attention's tensors, the same for both passes.
#pragma once

#include <initializer_list>

#include "cpu/attention_plan.h"
#include "cpu/operand.h"

namespace coda::cpu {

/// The number of tokens by qkv's shape.
int64_t tokens_of(const char* operation, const TensorView& qkv);

/// Shapes, types, memory and overlap. qkv comes first and decides the type; lse is known by its
/// name, matrices named after qkv have its shape, the others that of y.
void check_attention(const AttentionPlan& plan, std::initializer_list<Operand> operands);

}  // namespace coda::cpu

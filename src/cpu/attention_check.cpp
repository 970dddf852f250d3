// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention_check.h"

#include <coda/error.h>

namespace coda::cpu {

int64_t tokens_of(const char* operation, const TensorView& qkv) {
  const Operand operand{operation, "qkv", qkv};
  if (qkv.rank != 2)
    throw Error(ErrorKind::shape, operand.where(), "a matrix", "rank " + std::to_string(qkv.rank),
                "pass a view of that rank");
  return qkv.shape[0];
}

void check_attention(const AttentionPlan& plan, std::initializer_list<Operand> operands) {
  const Operand& qkv = *operands.begin();
  const DType type = qkv.view.dtype;
  for (const Operand& operand : operands) {
    if (operand.name == "lse") {
      check_type(operand, std::array{DType::f32}, "log-sum-exps are float32 whatever qkv is");
      check_matrix(operand, plan.tokens, "one per token", plan.query_heads, "one per query head");
      continue;
    }
    const bool packed = operand.name.ends_with("qkv");
    if (&operand == &qkv)
      check_type(operand, kAttentionTypes, "convert the activations");
    else
      check_type(operand, std::span(&type, 1), "use the type of qkv");
    check_matrix(operand, plan.tokens, "one per token",
                 packed ? plan.width() : plan.query_heads * plan.head_size,
                 packed ? "(query_heads + 2 key_heads) head_size" : "query_heads head_size");
  }
  check_overlap(operands);
}

}  // namespace coda::cpu

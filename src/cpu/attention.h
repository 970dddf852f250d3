// SPDX-License-Identifier: Apache-2.0
// Causal self-attention and its gradient on the CPU: the one operation between the products of a
// Transformer block that is no epilogue program.
//
// For query head h with key head g = h / (query_heads / key_heads), over the tokens i, j of one
// sequence, with float32 in between and one rounding at the end:
//
//   s_ij  = scale q_i . k_j, then softcap tanh(s_ij / softcap) where softcap > 0 (Gemma 2)
//   lse_i = log sum_j exp(s_ij)   over i - window < j <= i (window 0: over j <= i)
//   y_i   = sum_j exp(s_ij - lse_i) v_j
//
// The softmax runs over blocks of keys with a running maximum, and the gradient makes the
// probabilities again from lse: FlashAttention (arXiv 2205.14135; the gradient as in 2307.08691,
// with delta_i = dy_i . y_i):
//
//   dv_j = sum p_ij dy_i      ds_ij = p_ij (dy_i . v_j - delta_i) (1 - (s_ij / softcap)^2) scale
//   dq_i = sum ds_ij k_j      dk_j = sum ds_ij q_i
//
// where the sums of dk and dv go over the query heads of g too.
//
// Nothing of size tokens x tokens is stored. Results have the same bits for any number of threads;
// they depend on the instruction set. Blocks that straddle the mask multiply unseen numbers by 0,
// so a NaN or an infinity may reach any token of its own sequence, never another sequence.
#pragma once

#include <coda/tensor.h>

#include <optional>
#include <span>

#include "cpu/isa.h"

namespace coda::cpu {

struct AttentionOptions {
  int64_t query_heads = 1;  // a multiple of key_heads
  int64_t key_heads = 1;
  int64_t head_size = 1;
  float scale = 1;     // usually 1 / sqrt(head_size)
  float softcap = 0;   // 0: none
  int64_t window = 0;  // keys that a query sees, its own among them; 0: all
  /// Where packed sequences begin, and the number of tokens at the end: 0, ..., tokens, never
  /// falling. Empty: one sequence. Read during the call alone.
  std::span<const int64_t> cumulative_lengths;
  std::optional<Isa> isa;  // the widest if not given
};

/// Bytes of workspace for so many tokens and threads (0: one per core), of any alignment.
size_t attention_workspace(const AttentionOptions& options, int64_t tokens, int threads);
size_t attention_gradient_workspace(const AttentionOptions& options, int64_t tokens, int threads);

/// Writes y and lse. T is f32, bf16 or f16:
///   qkv [tokens, (query_heads + 2 key_heads) head_size] T: query heads, key heads, value heads
///   y   [tokens, query_heads head_size] T, lse [tokens, query_heads] f32
/// Rows may be further apart than they are wide; columns lie side by side. Throws Error (argument,
/// shape, dtype, unsupported) before anything is written.
void attention(const AttentionOptions& options, const TensorView& qkv, const TensorView& y,
               const TensorView& lse, void* workspace, int threads);

/// Writes dqkv, laid out like qkv and of its type, from what attention() read and wrote and from
/// dy, laid out like y. No output may share memory with another tensor.
void attention_gradient(const AttentionOptions& options, const TensorView& qkv, const TensorView& y,
                        const TensorView& lse, const TensorView& dy, const TensorView& dqkv,
                        void* workspace, int threads);

}  // namespace coda::cpu

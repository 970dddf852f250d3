// SPDX-License-Identifier: Apache-2.0
// The embedding of tokens and its gradient on the CPU. Like attention, no epilogue programs: both
// reach rows of a table by value.
#pragma once

#include <coda/tensor.h>

#include <cstddef>

namespace coda::cpu {

/// out[i] = table[ids[i]]: ids [tokens] i32 or i64, table [vocabulary, columns] and out [tokens,
/// columns] of one type, f32, bf16 or f16. Rows may be further apart than they are wide. An id
/// outside [0, vocabulary) is an Error that names the first, before anything is written, as are
/// wrong shapes, types and overlap. `threads` 0: one per core.
void embedding(const TensorView& ids, const TensorView& table, const TensorView& out, int threads);

/// Bytes of workspace for the gradient, of any alignment.
size_t embedding_gradient_workspace(int64_t tokens, int64_t vocabulary, int64_t columns,
                                    int threads);

/// dtable[v] = sum of dout[i] over the tokens i of id v, in the order of tokens: dout [tokens,
/// columns] f32, bf16 or f16, dtable [vocabulary, columns] f32. With `accumulate` the sum goes on
/// from what dtable holds; otherwise rows that no token has become 0. Tokens are sorted by id first
/// and each row is summed by one worker, so there are no atomics, and the bits do not depend on the
/// number of threads.
void embedding_gradient(const TensorView& ids, const TensorView& dout, const TensorView& dtable,
                        bool accumulate, void* workspace, int threads);

}  // namespace coda::cpu

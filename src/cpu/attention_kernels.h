// SPDX-License-Identifier: Apache-2.0
// The inner loops of attention, one table per instruction set. Plain data, as in kernels.h and for
// the same reason.
//
// Scores are kept transposed: a row is a key, and neighbouring columns are neighbouring queries. A
// softmax then runs along rows with one query in each lane, without a sum across lanes, and the
// probabilities already lie as the products that follow read them.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace coda::cpu {

/// c [rows, columns] = a [rows, k] b [k, columns], or added to c. One of a_row and a_k is 1. Rows
/// and columns are rounded up to whole register blocks, so that much of a, b and c must exist.
struct ProductArgs {
  int64_t rows, columns, k;
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_k;
  float* c;
  int64_t c_row;
  bool accumulate;
};

/// What scores are made of: `scores` = q k of `rows` keys by a panel of queries, rows `pitch`
/// elements apart. Lane l of row r is seen where r + first <= l < r + first + window.
struct ScoreArgs {
  int64_t rows;
  float* scores;
  int64_t pitch;
  int64_t first;   // of row 0: the key's position less that of the panel's first query
  int64_t window;  // as if endless where the caller has none
  float scale;
  float softcap;  // 0: none
};

struct AttentionKernels {
  int64_t rows, columns;  // of a register block; a panel of queries has `columns` lanes
  void (*multiply)(const ProductArgs&);
  /// Scores become exp(score - new maximum), 0 where unseen. Updates the running maximum and sum of
  /// each lane; `factors` is what earlier sums over the same queries are to be multiplied with.
  void (*probabilities)(const ScoreArgs&, float* maximum, float* sum, float* factors);
  /// Scores become probabilities exp(score - lse), and `gradients` (of the probabilities, laid out
  /// like the scores) become those of q k: p (dp - delta) times scale and the softcap's derivative.
  void (*derivatives)(const ScoreArgs&, float* gradients, const float* lse, const float* delta);
  /// c [rows, columns], packed: each lane times its factor.
  void (*scale_lanes)(float* c, int64_t rows, const float* factors);
};

/// The table for an instruction set that supports() holds for.
const AttentionKernels& attention_kernels(Isa isa);

}  // namespace coda::cpu

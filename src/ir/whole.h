// SPDX-License-Identifier: Apache-2.0
// Nodes that need whole matrices, which graphs alone may have: products with weights, what moves
// columns, and the ops that are opaque to rewriting.
//
// M is the number of tokens. A weight is [N, K] (out, in), as it lies on disk.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace coda::ir {

using ValueId = int;

/// Sum over terms of A W^T. Arguments of each term: a [M, K], then `segments` weights [N_i, K],
/// side by side along N: the result is [M, N_1 + N_2 + ...].
struct Product {
  int segments = 1;
  bool operator==(const Product&) const = default;
};

/// Sum over terms of A W, the gradient by the operand of a Product. Arguments of term t: a [M, N_1
/// + N_2 + ...], then segments[t] weights [N_i, K]: the result is [M, K].
struct InputGradient {
  std::vector<int> segments;
  bool operator==(const InputGradient&) const = default;
};

/// dY^T X, the gradient by a weight: d_y [M, N], x [M, K] -> [N, K].
struct WeightGradient {
  bool operator==(const WeightGradient&) const = default;
};

/// Columns [first, first + width) of a matrix or a vector.
struct Slice {
  int64_t first, width;
  bool operator==(const Slice&) const = default;
};

/// Matrices or vectors side by side.
struct Concat {
  bool operator==(const Concat&) const = default;
};

/// A vector [P] repeated to `width` columns, a multiple of P.
struct Repeat {
  int64_t width;
  bool operator==(const Repeat&) const = default;
};

/// One period [P] of a repeating vector.
struct Period {
  bool operator==(const Period&) const = default;
};

/// Rows of a table: ids [M], table [V, d] -> [M, d]. Tokens with the id `padding` give its row no
/// gradient; -1: none.
struct Embedding {
  int64_t padding = -1;
  bool operator==(const Embedding&) const = default;
};

/// The gradient by the table: ids [M], d_y [M, d] -> [V, d].
struct EmbeddingGradient {
  int64_t rows;
  bool operator==(const EmbeddingGradient&) const = default;
};

/// Causal attention (Vaswani et al. 2017) over the packed columns [queries | keys | values].
struct AttentionShape {
  int64_t query_heads, key_heads, head_size;
  double scale;        // of the scores
  double softcap = 0;  // 0: none
  int64_t window = 0;  // keys that a query sees, itself included; 0: all
  bool operator==(const AttentionShape&) const = default;
};

/// qkv [M, (Hq + 2 Hkv) dh] -> part 0: y [M, Hq dh]; part 1: log-sum-exp of the scores, [M, Hq].
struct Attention {
  AttentionShape shape;
  int part = 0;
  bool operator==(const Attention&) const = default;
};

/// qkv, y, log-sum-exp, d_y -> d_qkv.
struct AttentionGradient {
  AttentionShape shape;
  bool operator==(const AttentionGradient&) const = default;
};

/// What users write; the first pass replaces it by the nodes above and arithmetic.
struct Composite {
  enum class Kind : unsigned char {
    rms_norm,       // x [M, d], w [d] -> [M, d]; eps, unit_offset
    layer_norm,     // x [M, d], w [d], b [d] -> [M, d]; eps
    swiglu,         // gate [M, f], up [M, f] -> [M, f]
    geglu,          // the same with the tanh form of GELU
    rope,           // x [M, H dh], positions [M], frequencies [dh/2] -> [M, H dh]; head_size
    head_norm,      // RMSNorm of each head: x [M, H dh], w [dh]; head_size, eps, unit_offset
    cross_entropy,  // logits [M, V], labels [M] -> [M], one loss a token; ignored, smoothing
    z_loss,         // logits [M, V], labels [M] -> [M], the squared log-sum-exp; ignored
  };
  Kind kind;
  double eps = 0;
  bool unit_offset = false;  // the weight of a norm is 1 + w
  int64_t head_size = 0;
  int64_t ignored = -100;
  double smoothing = 0;
  double scale = 1;  // of the rotation: YaRN's attention factor
  bool operator==(const Composite&) const = default;
};

using WholeOp = std::variant<Product, InputGradient, WeightGradient, Slice, Concat, Repeat, Period,
                             Embedding, EmbeddingGradient, Attention, AttentionGradient, Composite>;

struct Whole {
  WholeOp op;
  std::vector<ValueId> args;
};

/// The op of a node if it is an Op, otherwise null.
template <class Op, class Node>
const Op* whole(const Node& node) {
  const auto* n = std::get_if<Whole>(&node);
  return n ? std::get_if<Op>(&n->op) : nullptr;
}

/// "product", "weight_gradient", "rms_norm", ...
const char* name_of(const WholeOp& op);

}  // namespace coda::ir

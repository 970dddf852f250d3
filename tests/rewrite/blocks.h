// SPDX-License-Identifier: Apache-2.0
// Blocks of Transformers as plain graphs, for the tests of rewriting.
#pragma once

#include <coda/graph.h>

#include <cmath>
#include <string>

namespace coda::test {

struct Widths {
  int64_t d = 64, f = 160, heads = 4, key_heads = 4, head_size = 16, vocabulary = 96;
  int64_t queries() const { return heads * head_size; }
  int64_t keys() const { return key_heads * head_size; }
};

/// The parts that blocks are put together from; parameters are named by a prefix.
struct Parts {
  GraphBuilder& g;
  Widths w;

  Value project(Value x, const std::string& name, int64_t out, int64_t in) {
    return matmul(x, g.weight(name, out, in));
  }
  Value norm(Value x, const std::string& name) { return rms_norm(x, g.vector(name, w.d), 1e-5); }
  AttentionOptions heads() const {
    return {w.heads, w.key_heads, w.head_size, 1 / std::sqrt(double(w.head_size))};
  }
  /// Query, key and value projections of h, rotated, side by side as the graph's output.
  struct Qkv {
    Value q, k, v;
  };
  Qkv qkv(Value h, Value positions, Value frequencies) {
    return {rope(project(h, "wq", w.queries(), w.d), positions, frequencies),
            rope(project(h, "wk", w.keys(), w.d), positions, frequencies),
            project(h, "wv", w.keys(), w.d)};
  }
  Value gated_mlp(Value h, const std::string& suffix = "") {
    return project(
        swiglu(project(h, "gate" + suffix, w.f, w.d), project(h, "up" + suffix, w.f, w.d)),
        "down" + suffix, w.d, w.f);
  }
};

}  // namespace coda::test

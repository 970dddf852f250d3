// SPDX-License-Identifier: Apache-2.0
// The loops behind attention_kernels.h. Compiled once for each instruction set, with contraction
// allowed as in gemm_impl.h, so their bits depend on the instruction set; the exponential gains
// accuracy by it.
//
// multiply() is the register block of gemm_impl.h on operands that are read where they lie. Blocks
// of attention fit the cache and are used once or twice, so packing them would cost a good part of
// the product itself.
#pragma once

#include "cpu/attention_kernels.h"
#include "cpu/math.h"
// Of this header the register block's shape is used, not the packed product.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cpu/gemm_impl.h"
#pragma GCC diagnostic pop

namespace coda::cpu {
namespace {

constexpr float kInfinity = __builtin_inff();

/// One register block; kByRows: a_row is 1, otherwise a_k.
template <bool kByRows>
[[gnu::always_inline]] inline void register_block(const ProductArgs& g, const float* __restrict a,
                                                  const float* __restrict b, float* c) {
  const int64_t stride = kByRows ? g.a_k : g.a_row, b_k = g.b_k, k = g.k, c_row = g.c_row;
  const bool accumulate = g.accumulate;
  Lanes sums[kRows][kVectors] = {};
  for (int64_t p = 0; p < k; ++p) {
    Lanes right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = load_lanes(b + p * b_k + v * kVector);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float left = kByRows ? a[p * stride + r] : a[r * stride + p];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * c_row + v * kVector;
      store_lanes(to, accumulate ? load_lanes(to) + sums[r][v] : sums[r][v]);
    }
  }
}

template <bool kByRows>
void multiply_blocks(const ProductArgs& g) {
  for (int64_t j = 0; j < g.columns; j += kColumns)
    for (int64_t i = 0; i < g.rows; i += kRows)
      register_block<kByRows>(g, g.a + i * g.a_row, g.b + j, g.c + i * g.c_row + j);
}

void multiply(const ProductArgs& g) {
  g.a_row == 1 ? multiply_blocks<true>(g) : multiply_blocks<false>(g);
}

/// The lanes of a row that see its key: [begin, end).
struct Seen {
  int begin, end;
  bool all() const { return begin == 0 && end == kColumns; }
};
inline int to_lane(int64_t at) {
  return static_cast<int>(at < 0 ? 0 : at > kColumns ? kColumns : at);
}
inline Seen seen_of(const ScoreArgs& args, int64_t row) {
  const int64_t begin = args.first + row;
  return {to_lane(begin), to_lane(begin + args.window)};
}

template <bool kCapped>
void probabilities_of(const ScoreArgs& args, float* maximum, float* sum, float* factors) {
  const float factor = kCapped ? args.scale / args.softcap : args.scale;
  const float cap = args.softcap;
  Lanes top[kVectors], total[kVectors] = {};
  for (int v = 0; v < kVectors; ++v) top[v] = load_lanes(maximum + v * kVector);
  for (int64_t r = 0; r < args.rows; ++r) {
    float* __restrict s = args.scores + r * args.pitch;
    for (int l = 0; l < kColumns; ++l) {
      const float x = s[l] * factor;
      s[l] = kCapped ? cap * math::tanh(x) : x;
    }
    if (const Seen seen = seen_of(args, r); !seen.all())
      for (int l = 0; l < kColumns; ++l) s[l] = l >= seen.begin && l < seen.end ? s[l] : -kInfinity;
    for (int v = 0; v < kVectors; ++v) {
      const Lanes score = load_lanes(s + v * kVector);
      top[v] = score > top[v] ? score : top[v];
    }
  }
  // A lane that has seen no key yet has no maximum; its probabilities are exp(-inf) = 0.
  float shift[kColumns];
  for (int v = 0; v < kVectors; ++v) store_lanes(shift + v * kVector, top[v]);
  for (int l = 0; l < kColumns; ++l) {
    const float old = maximum[l];
    maximum[l] = shift[l];
    shift[l] = shift[l] == -kInfinity ? 0.0f : shift[l];
    factors[l] = math::exp(old - shift[l]);
  }
  for (int64_t r = 0; r < args.rows; ++r) {
    float* __restrict s = args.scores + r * args.pitch;
    for (int l = 0; l < kColumns; ++l) s[l] = math::exp(s[l] - shift[l]);
    for (int v = 0; v < kVectors; ++v) total[v] += load_lanes(s + v * kVector);
  }
  for (int v = 0; v < kVectors; ++v) {
    float* at = sum + v * kVector;
    store_lanes(at, load_lanes(at) * load_lanes(factors + v * kVector) + total[v]);
  }
}

void probabilities(const ScoreArgs& args, float* maximum, float* sum, float* factors) {
  args.softcap > 0 ? probabilities_of<true>(args, maximum, sum, factors)
                   : probabilities_of<false>(args, maximum, sum, factors);
}

template <bool kCapped>
void derivatives_of(const ScoreArgs& args, float* gradients, const float* lse_of,
                    const float* delta_of) {
  const float factor = kCapped ? args.scale / args.softcap : args.scale;
  const float cap = args.softcap, scale = args.scale;
  float lse[kColumns], delta[kColumns];
  for (int l = 0; l < kColumns; ++l) lse[l] = lse_of[l], delta[l] = delta_of[l];
  for (int64_t r = 0; r < args.rows; ++r) {
    float* __restrict s = args.scores + r * args.pitch;
    float* __restrict d = gradients + r * args.pitch;
    for (int l = 0; l < kColumns; ++l) {
      const float x = s[l] * factor;
      const float t = kCapped ? math::tanh(x) : x;
      const float p = math::exp((kCapped ? cap * t : t) - lse[l]);
      const float slope = kCapped ? scale * (1.0f - t * t) : scale;
      s[l] = p;
      d[l] = p * (d[l] - delta[l]) * slope;
    }
    if (const Seen seen = seen_of(args, r); !seen.all())
      for (int l = 0; l < kColumns; ++l) {
        const bool in = l >= seen.begin && l < seen.end;
        s[l] = in ? s[l] : 0.0f;
        d[l] = in ? d[l] : 0.0f;
      }
  }
}

void derivatives(const ScoreArgs& args, float* gradients, const float* lse, const float* delta) {
  args.softcap > 0 ? derivatives_of<true>(args, gradients, lse, delta)
                   : derivatives_of<false>(args, gradients, lse, delta);
}

void scale_lanes(float* c, int64_t rows, const float* factors) {
  float factor[kColumns];
  for (int l = 0; l < kColumns; ++l) factor[l] = factors[l];
  for (int64_t r = 0; r < rows; ++r)
    for (int l = 0; l < kColumns; ++l) c[r * kColumns + l] *= factor[l];
}

void fill(AttentionKernels& table) {
  table = {kRows, kColumns, multiply, probabilities, derivatives, scale_lanes};
}

}  // namespace
}  // namespace coda::cpu

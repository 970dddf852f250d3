// SPDX-License-Identifier: Apache-2.0
//
// Programs as a code generator would write them, one per way of using the driver.
#pragma once
#include "../../src/cuda/standalone/split_sum.cuh"
#include "mainloop_support.h"

namespace harness {

template <Type Out, bool Add>
__global__ void split_sum_kernel(const __grid_constant__ SplitSum s) {
  split_sum<Out, Out, Add>(s);
}

template <Config C, Type Out = C.element>
struct Plain {
  static constexpr Config config = C;
  static constexpr Port ports[] = {{.kind = Kind::tile_out, .type = Out}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t,
                                const float (&acc)[1][4 * strip_blocks(C.pair, Width::full)]) {
    t.template store<0>(acc[0]);
  }
};

// x = acc + residual, h = x * w, sum over columns of x^2.
template <Config C>
struct Residual {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {{.kind = Kind::tile_in, .type = Type::bf16},
                                   {.kind = Kind::row_vector, .type = Type::bf16},
                                   {.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::keep_m, .reduce = Reduce::sum}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][n]) {
    float x[n], w[n], h[n], s[n];
    t.template load<0>(x);
    t.template row_vector<1>(w);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x[i] = acc[0][i] + x[i];
      h[i] = x[i] * w[i];
      s[i] = x[i] * x[i];
    }
    t.template keep_m<4>(s);
    t.template store<2>(x);
    t.template store<3>(h);
  }
};

CODA_DEVICE float test_sigmoid(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.f + exp2_fast(-x * kLog2E)));
  return r;
}

// g = acc0 * rstd, u = acc1 * rstd, y = silu(g) * u; rstd from the partials of a sum of squares.
template <Config C>
struct Gated {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {{.kind = Kind::col_vector, .type = Type::f32},
                                   {.kind = Kind::number},
                                   {.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::tile_out, .type = Type::bf16}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[2][n]) {
    float r[n], g[n], u[n], y[n];
    t.template col_vector<0>(r);
    const float scale = t.template number<1>();
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float s = rsqrtf(r[i] * scale);
      g[i] = acc[0][i] * s;
      u[i] = acc[1][i] * s;
      y[i] = g[i] * test_sigmoid(g[i]) * u[i];
    }
    t.template store<2>(g);
    t.template store<3>(u);
    t.template store<4>(y);
  }
};

// The derivative of the gating: two inputs, three outputs, a row reduction.
template <Config C>
struct GatedBackward {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {
      {.kind = Kind::tile_in, .type = Type::bf16},  {.kind = Kind::tile_in, .type = Type::bf16},
      {.kind = Kind::tile_out, .type = Type::bf16}, {.kind = Kind::tile_out, .type = Type::bf16},
      {.kind = Kind::tile_out, .type = Type::bf16}, {.kind = Kind::keep_m, .reduce = Reduce::sum}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][n]) {
    float g[n], u[n], dg[n], du[n], y[n], z[n];
    t.template load<0>(g);
    t.template load<1>(u);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float s = test_sigmoid(g[i]);
      y[i] = g[i] * s * u[i];
      du[i] = acc[0][i] * g[i] * s;
      dg[i] = acc[0][i] * u[i] * s * (1.f + g[i] * (1.f - s));
      z[i] = g[i] * dg[i] + u[i] * du[i];
    }
    t.template keep_m<5>(z);
    t.template store<2>(dg);
    t.template store<3>(du);
    t.template store<4>(y);
  }
};

// dx = dres + rstd (acc w - x rstd zdz / N), dw = sum over rows of acc x rstd.
template <Config C>
struct NormBackward {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {
      {.kind = Kind::tile_in, .type = Type::bf16},    {.kind = Kind::tile_in, .type = Type::bf16},
      {.kind = Kind::row_vector, .type = Type::bf16}, {.kind = Kind::col_vector, .type = Type::f32},
      {.kind = Kind::col_vector, .type = Type::f32},  {.kind = Kind::tile_out, .type = Type::bf16},
      {.kind = Kind::keep_n, .reduce = Reduce::sum}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][n]) {
    float x[n], d[n], w[n], r[n], z[n];
    t.template load<0>(x);
    t.template load<1>(d);
    t.template row_vector<2>(w);
    t.template col_vector<3>(r);
    t.template col_vector<4>(z);
    const float over = 1.f / static_cast<float>(t.columns());
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x[i] = x[i] * r[i];
      d[i] = d[i] + r[i] * (acc[0][i] * w[i] - x[i] * z[i] * over);
      x[i] = acc[0][i] * x[i];
    }
    t.template keep_n<6>(x);
    t.template store<5>(d);
  }
};

// Accumulation in place into float32, and half, double and one-byte outputs; pairs config.pair
// apart.
template <Config C>
struct Widths {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {
      {.kind = Kind::tile_in, .type = Type::f32},
      {.kind = Kind::tile_in, .width = Width::half, .type = Type::bf16},
      {.kind = Kind::tile_in, .type = Type::e5m2},
      {.kind = Kind::tile_out, .type = Type::f32},
      {.kind = Kind::tile_out, .width = Width::half, .type = Type::bf16},
      {.kind = Kind::tile_out, .width = Width::twice, .type = Type::f16},
      {.kind = Kind::tile_out, .type = Type::e4m3}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][n]) {
    float total[n], half[n / 2], byte[n], x[n / 2], y[n / 2], wide[2 * n], minus[n];
    t.template load<0>(total);
    t.template load<1>(half);
    t.template load<2>(byte);
    split_columns<C.pair>(acc[0], x, y);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) half[i] = half[i] + x[i] * y[i];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      total[i] += acc[0][i];
      byte[i] += acc[0][i];
      minus[i] = -2.f * acc[0][i];
    }
    join_columns<C.pair>(acc[0], minus, wide);
    t.template store<3>(total);
    t.template store<4>(half);
    t.template store<5>(wide);
    t.template store<6>(byte);
  }
};

// Rotates columns j and j + pair by position times frequency, in the first 2/5 of the columns.
template <Config C>
struct Rotate {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {
      {.kind = Kind::col_vector, .type = Type::i32},
      {.kind = Kind::row_vector, .width = Width::half, .type = Type::f32, .period = C.pair},
      {.kind = Kind::tile_out, .type = Type::bf16}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][n]) {
    float x[n / 2], y[n / 2], f[n / 2], v[n];
    int position[n / 2];
    t.template col_vector<0>(position);
    t.template row_vector<1>(f);
    split_columns<C.pair>(acc[0], x, y);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const float turn = static_cast<float>(position[i]) * f[i];
      const float c = __cosf(turn), s = __sinf(turn), old = x[i];
      x[i] = old * c - y[i] * s;
      y[i] = y[i] * c + old * s;
    }
    join_columns<C.pair>(x, y, v);
#pragma unroll
    for (int i = 0; i < n; ++i) v[i] = t.col(i) < t.columns() * 2 / 5 ? v[i] : acc[0][i];
    t.template store<2>(v);
  }
};

// Every reduction, a label per row, a table per column that repeats, and groups of 32 columns.
template <Config C>
struct Reductions {
  static constexpr Config config = C;
  static constexpr int n = 4 * strip_blocks(C.pair, Width::full);
  static constexpr Port ports[] = {{.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::keep_m, .reduce = Reduce::logsumexp},
                                   {.kind = Kind::keep_m, .reduce = Reduce::moments},
                                   {.kind = Kind::keep_m, .reduce = Reduce::argmax},
                                   {.kind = Kind::keep_m, .reduce = Reduce::max},
                                   {.kind = Kind::keep_m, .reduce = Reduce::sum},
                                   {.kind = Kind::keep_n, .reduce = Reduce::min},
                                   {.kind = Kind::keep_n, .reduce = Reduce::sum},
                                   {.kind = Kind::col_vector, .type = Type::i64},
                                   {.kind = Kind::row_vector, .type = Type::f32, .period = 24},
                                   {.kind = Kind::group_in, .type = Type::f32, .group = 32},
                                   {.kind = Kind::group_fold, .reduce = Reduce::max, .group = 32},
                                   {.kind = Kind::group_out, .type = Type::f32, .group = 32}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][n]) {
    float z[n], w[n], hit[n], g[n];
    i64 target[n];
    t.template row_vector<9>(w);
    t.template group_in<10>(g);
#pragma unroll
    for (int i = 0; i < n; ++i) z[i] = acc[0][i] + w[i] + g[i];
    if constexpr (Pass == 0) {
#pragma unroll
      for (int i = 0; i < n; ++i) z[i] = fabsf(z[i]);
      t.template fold<11>(z);
    } else {
      t.template col_vector<8>(target);
      t.template folded<11>(g);
#pragma unroll
      for (int i = 0; i < n; ++i) hit[i] = t.col(i) == target[i] ? z[i] : 0.f;
      t.template group_out<12>(g);
      t.template keep_m<1>(z);
      t.template keep_m<2>(z);
      t.template keep_m<3>(z);
      t.template keep_m<4>(z);
      t.template keep_m<5>(hit);
      t.template keep_n<6>(z);
      t.template keep_n<7>(z);
#pragma unroll
      for (int i = 0; i < n; ++i) z[i] = z[i] + g[i];
      t.template store<0>(z);
    }
  }
};

}  // namespace harness

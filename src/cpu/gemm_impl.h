// SPDX-License-Identifier: Apache-2.0
// The matrix product of the plain mainloop: panels of B are packed to kColumns neighbouring
// columns, panels of A to kRows rows, and a kRows x kColumns block of C stays in registers while k
// runs. Compiled once for each instruction set with contraction allowed, so its bits depend on the
// instruction set.
#pragma once

#include "cpu/kernels.h"

namespace coda::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kVector = 16, kVectors = 2, kRows = 12;
#elif defined(__AVX__)
constexpr int kVector = 8, kVectors = 2, kRows = 6;
#else
constexpr int kVector = 4, kVectors = 2, kRows = 4;
#endif
constexpr int64_t kColumns = kVector * kVectors;
constexpr int64_t kDepth = 256;  // of a packed panel: B's slice stays in the second-level cache

using Lanes = float __attribute__((vector_size(kVector * sizeof(float))));

// Through memcpy, since panels and rows of C are aligned to their elements alone.
[[gnu::always_inline]] inline Lanes load_lanes(const float* from) {
  Lanes lanes;
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
[[gnu::always_inline]] inline void store_lanes(float* to, const Lanes& lanes) {
  __builtin_memcpy(to, &lanes, sizeof lanes);
}

[[gnu::always_inline]] inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// packed[panel][k][width] from rows of a strided matrix; rows beyond `rows` are 0.
void pack(const float* from, int64_t row, int64_t k_stride, int64_t rows, int64_t k, int64_t width,
          float* packed) {
  for (int64_t r = 0; r < rows; r += width) {
    const int64_t count = smaller(width, rows - r);
    if (k_stride == 1) {
      for (int64_t l = 0; l < width; ++l)
        for (int64_t p = 0; p < k; ++p)
          packed[p * width + l] = l < count ? from[(r + l) * row + p] : 0.0f;
    } else {
      for (int64_t p = 0; p < k; ++p)
        for (int64_t l = 0; l < width; ++l)
          packed[p * width + l] = l < count ? from[(r + l) * row + p * k_stride] : 0.0f;
    }
    packed += width * k;
  }
}

/// One register block: rows x columns of c, of at most kRows x kColumns.
void block(const float* __restrict a, const float* __restrict b, int64_t k, float* c, int64_t ldc,
           int64_t rows, int64_t columns, bool accumulate) {
  Lanes sums[kRows][kVectors] = {};
  for (int64_t p = 0; p < k; ++p) {
    Lanes right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = load_lanes(b + p * kColumns + v * kVector);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float left = a[p * kRows + r];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += left * right[v];
    }
  }
  if (rows == kRows && columns == kColumns) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* to = c + r * ldc + v * kVector;
        store_lanes(to, accumulate ? load_lanes(to) + sums[r][v] : sums[r][v]);
      }
    }
    return;
  }
  float edge[kRows][kColumns];
  __builtin_memcpy(edge, sums, sizeof edge);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j)
      c[r * ldc + j] = accumulate ? c[r * ldc + j] + edge[r][j] : edge[r][j];
}

int64_t padded(int64_t count, int64_t width) { return (count + width - 1) / width * width; }

int64_t gemm_scratch(int64_t m, int64_t n, int64_t k) {
  return (padded(m, kRows) + padded(n, kColumns)) * smaller(k, kDepth);
}

void gemm(const GemmArgs& g) {
  for (int64_t k0 = 0; k0 < g.k; k0 += kDepth) {
    const int64_t k = smaller(kDepth, g.k - k0);
    float* a = g.scratch;
    float* b = a + padded(g.m, kRows) * k;
    pack(g.a + k0 * g.a_k, g.a_row, g.a_k, g.m, k, kRows, a);
    pack(g.b + k0 * g.b_k, g.b_row, g.b_k, g.n, k, kColumns, b);
    const bool accumulate = g.accumulate || k0 > 0;
    for (int64_t j = 0; j < g.n; j += kColumns)
      for (int64_t i = 0; i < g.m; i += kRows)
        block(a + i * k, b + j * k, k, g.c + i * g.ldc + j, g.ldc, smaller(kRows, g.m - i),
              smaller(kColumns, g.n - j), accumulate);
  }
}

}  // namespace
}  // namespace coda::cpu

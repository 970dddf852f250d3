// SPDX-License-Identifier: Apache-2.0
// C += A B^T in float64, blocked for vector registers: panels of kColumns rows of B, packed so that
// the innermost loop runs over neighbouring elements.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/reference.h"

// Clones are chosen before main() by functions that sanitizers instrument and cannot run so early.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CODA_WIDE_VECTORS [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define CODA_WIDE_VECTORS
#endif

namespace coda::reference {
namespace {

using Vector [[gnu::vector_size(64)]] = double;  // split in halves or quarters where need be

constexpr int64_t kLanes = 8, kVectors = 2;
constexpr int64_t kRows = 4, kColumns = kLanes * kVectors;

/// tile[i][j] = sum over k of a[i][k] panel[k][j]. The sums stay in registers.
CODA_WIDE_VECTORS
void multiply_tile(const double* const* a, const double* panel, int64_t k, double* tile) {
  Vector sum[kRows][kVectors] = {};
  const double *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
  for (int64_t p = 0; p < k; ++p) {
    Vector b[kVectors];
    std::memcpy(b, panel + p * kColumns, sizeof b);
    for (int64_t v = 0; v < kVectors; ++v) {
      sum[0][v] += a0[p] * b[v];
      sum[1][v] += a1[p] * b[v];
      sum[2][v] += a2[p] * b[v];
      sum[3][v] += a3[p] * b[v];
    }
  }
  std::memcpy(tile, sum, sizeof sum);
}

/// c[i, j] += a[i, :k] . b[j, :k]; rows of a and b lie `ld` apart. Lanes beyond the edges repeat
/// the last row and are not stored.
void accumulate(const double* a, const double* b, int64_t m, int64_t n, int64_t k, int64_t ld,
                double* c) {
  std::vector<double> panel(static_cast<size_t>(k * kColumns));
  double tile[kRows * kColumns];
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    for (int64_t j = 0; j < kColumns; ++j) {
      const double* row = b + std::min(j0 + j, n - 1) * ld;
      for (int64_t p = 0; p < k; ++p) panel[p * kColumns + j] = row[p];
    }
    for (int64_t i0 = 0; i0 < m; i0 += kRows) {
      const double* rows[kRows];
      for (int64_t i = 0; i < kRows; ++i) rows[i] = a + std::min(i0 + i, m - 1) * ld;
      multiply_tile(rows, panel.data(), k, tile);
      for (int64_t i = i0; i < std::min(i0 + kRows, m); ++i)
        for (int64_t j = j0; j < std::min(j0 + kColumns, n); ++j)
          c[i * n + j] += tile[(i - i0) * kColumns + (j - j0)];
    }
  }
}

std::vector<double> magnitudes(std::span<const double> x, double factor) {
  std::vector<double> result(x.size());
  for (size_t i = 0; i < x.size(); ++i) result[i] = std::fabs(x[i]) * factor;
  return result;
}

}  // namespace

void add_product(std::span<const double> a, std::span<const double> b, int64_t k, double unit,
                 Dense& accumulator) {
  const int64_t m = accumulator.rows, n = accumulator.columns;
  accumulator.error.resize(accumulator.value.size());
  if (k == 0) return;
  accumulate(a.data(), b.data(), m, n, k, k, accumulator.value.data());
  accumulate(magnitudes(a, unit).data(), magnitudes(b, 1).data(), m, n, k, k,
             accumulator.error.data());
}

void add_long_product(std::span<const double> a, std::span<const double> b, int64_t k, double unit,
                      Dense& accumulator) {
  constexpr int64_t kBlock = 64,
                    kTerms = 16;  // looked at after each block; terms of an instruction
  constexpr double kTruncation = 0x1p-23;
  const int64_t m = accumulator.rows, n = accumulator.columns;
  std::vector<double> lost(accumulator.value.size());
  for (int64_t from = 0; from < k; from += kBlock) {
    const int64_t size = std::min(kBlock, k - from);
    accumulate(a.data() + from, b.data() + from, m, n, size, k, accumulator.value.data());
    const int64_t steps = (size + kTerms - 1) / kTerms;
    for (size_t i = 0; i < lost.size(); ++i)
      lost[i] += kTruncation * static_cast<double>(steps) * std::fabs(accumulator.value[i]);
  }
  std::vector<double> unit_error(accumulator.value.size());
  accumulate(magnitudes(a, unit).data(), magnitudes(b, 1).data(), m, n, k, k, unit_error.data());
  accumulator.error.resize(accumulator.value.size());
  for (size_t i = 0; i < lost.size(); ++i) accumulator.error[i] += std::max(unit_error[i], lost[i]);
}

}  // namespace coda::reference

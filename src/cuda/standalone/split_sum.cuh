// SPDX-License-Identifier: Apache-2.0
//
// The second half of a split-K product: sums the splits' float tiles in the order of the splits.
//
// Partial s of element (m, n) is at part[s * stride + m * ld + n]. With Add, `old` is the first
// term; it may be the output itself. One thread sums four neighbouring columns; ld and stride are
// multiples of four elements.
#pragma once
#include "../scalar/storage.cuh"

namespace coda::device {

struct SplitSum {
  const float* part;
  i64 ld, stride;
  const void* old;
  i64 old_ld;
  void* out;
  i64 out_ld;
  int splits, m, n;
};

template <Type Out, Type Old, bool Add>
CODA_DEVICE void split_sum(const SplitSum& s) {
  const int quads = (s.n + 3) / 4;
  const i64 count = static_cast<i64>(s.m) * quads;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 m = i / quads;
    const int n = static_cast<int>(i % quads) * 4;
    float sum[4] = {};
    if constexpr (Add)
      for (int e = 0; e < 4; ++e)
        if (n + e < s.n) sum[e] = read_float<Old>(s.old, m * s.old_ld + n + e);
    const float* from = s.part + m * s.ld + n;
#pragma unroll 4
    for (int k = 0; k < s.splits; ++k) {
      const float4 x = *reinterpret_cast<const float4*>(from + k * s.stride);
      sum[0] += x.x;
      sum[1] += x.y;
      sum[2] += x.z;
      sum[3] += x.w;
    }
    for (int e = 0; e < 4; ++e)
      if (n + e < s.n) write_float<Out>(s.out, m * s.out_ld + n + e, sum[e]);
  }
}

}  // namespace coda::device

// SPDX-License-Identifier: Apache-2.0
//
// Reductions of a tile, in a fixed order and without atomics.
//
// Over columns (keep_m): a thread folds its values of a row chunk by chunk, the four lanes of a
// quad join at the end of a row block. Over rows (keep_n): the eight row lanes combine per chunk by
// a butterfly that sends away half of the columns at each step, so n values take n - n / 8
// shuffles.
#pragma once
#include "../plan/plan.h"
#include "../scalar/math.cuh"

namespace coda::device {

// 1 / n of a count, and 0 of none. Assembly under a condition is a branch, so it stands before it, as
// it does below.
CODA_DEVICE float reciprocal(float n) {
  const float r = approximate_reciprocal(n);
  return n > 0.f ? r : 0.f;
}

template <Reduce R>
CODA_DEVICE float identity() {
  return R == Reduce::sum ? 0.f : R == Reduce::min ? kInfinity : -kInfinity;
}

template <Reduce R>
CODA_DEVICE float combine(float a, float b) {
  if constexpr (R == Reduce::sum) return a + b;
  if constexpr (R == Reduce::max) return greater(a, b);
  if constexpr (R == Reduce::min) return lesser(a, b);
}

// The running state of one row, kept elsewhere: a value; maximum, sum of exp(x - maximum); count,
// mean, sum of squared deviations; value, column as integer bits.
inline constexpr int kStateWords = 3;
template <Reduce R>
struct State {
  static constexpr int words = reduce_words(R);
  float (&w)[kStateWords];

  CODA_DEVICE void reset() const {
    w[0] = R == Reduce::moments ? 0.f : identity<R>();
    if constexpr (R == Reduce::moments) w[1] = w[2] = 0.f;
    if constexpr (R == Reduce::logsumexp) w[1] = 0.f;
    if constexpr (R == Reduce::argmax) w[1] = __int_as_float(-1);
  }

  // Joins another state. Order matters only to rounding.
  CODA_DEVICE void join(const State& o) const {
    if constexpr (R == Reduce::moments) {
      const float n = w[0] + o.w[0];
      const float f = o.w[0] * reciprocal(n), d = o.w[1] - w[1];
      w[1] += d * f;
      w[2] += o.w[2] + d * d * w[0] * f;
      w[0] = n;
    } else if constexpr (R == Reduce::logsumexp) {
      const float m = greater(w[0], o.w[0]);
      const float safe = m == -kInfinity ? 0.f : m;
      w[1] =
          w[1] * exp2_fast((w[0] - safe) * kLog2E) + o.w[1] * exp2_fast((o.w[0] - safe) * kLog2E);
      w[0] = m;
    } else if constexpr (R == Reduce::argmax) {
      if (precedes(o.w[0], __float_as_uint(o.w[1]), w[0], __float_as_uint(w[1])))
        w[0] = o.w[0], w[1] = o.w[1];
    } else {
      w[0] = combine<R>(w[0], o.w[0]);
    }
  }

  // Folds N values x[0..N) of columns col(i); those not `inside(i)` are left out by select.
  template <int N, class Value, class Col, class Inside>
  CODA_DEVICE void fold(Value x, Col col, Inside inside) const {
    if constexpr (R == Reduce::argmax) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const bool take =
            inside(i) && precedes(x(i), static_cast<u32>(col(i)), w[0], __float_as_uint(w[1]));
        w[0] = take ? x(i) : w[0];
        w[1] = take ? __int_as_float(col(i)) : w[1];
      }
    } else if constexpr (R == Reduce::logsumexp) {
      float m = w[0];
#pragma unroll
      for (int i = 0; i < N; ++i) m = greater(m, inside(i) ? x(i) : -kInfinity);
      const float safe = m == -kInfinity ? 0.f : m;
      w[1] *= exp2_fast((w[0] - safe) * kLog2E);
      w[0] = m;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float e = exp2_fast((x(i) - safe) * kLog2E);
        w[1] += inside(i) ? e : 0.f;
      }
    } else if constexpr (R == Reduce::moments) {
      float of_all[kStateWords];
      const State o{of_all};
      o.reset();
#pragma unroll
      for (int i = 0; i < N; ++i) {
        o.w[0] += inside(i) ? 1.f : 0.f;
        o.w[1] += inside(i) ? x(i) : 0.f;
      }
      o.w[1] *= reciprocal(o.w[0]);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float d = inside(i) ? x(i) - o.w[1] : 0.f;
        o.w[2] += d * d;
      }
      join(o);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) w[0] = combine<R>(w[0], inside(i) ? x(i) : identity<R>());
    }
  }

  // Over the four lanes that share a row.
  CODA_DEVICE void quad() const {
#pragma unroll
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
      float other[kStateWords];
#pragma unroll
      for (int i = 0; i < words; ++i) other[i] = __shfl_xor_sync(~0u, w[i], lanes);
      join({other});
    }
  }
};

// Over the eight row lanes: x[2 b + e] is the lane's value of column 2 (l % 4) + e of block b. Each
// step gives away half of the columns; once one is left, the remaining lanes hold the same total.
// The lane's totals are x[0 .. count) of flat indices `first` + i, to be taken from lanes with
// `owner`.
template <Reduce R, int N>
CODA_DEVICE void butterfly(float (&x)[N], u32 lane, u32& first, bool& owner) {
  first = 0;
  owner = true;
#pragma unroll
  for (int lanes = 16, live = N / 2; lanes >= 4; lanes /= 2, live /= 2) {
    const bool upper = lane & lanes;
    if (live == 0) {
      x[0] = combine<R>(x[0], __shfl_xor_sync(~0u, x[0], lanes));
      owner = owner && !upper;
    }
#pragma unroll
    for (int i = 0; i < live; ++i) {
      const float give = upper ? x[i] : x[i + live];
      const float keep = upper ? x[i + live] : x[i];
      x[i] = combine<R>(keep, __shfl_xor_sync(~0u, give, lanes));
    }
    first += upper ? live : 0;
  }
}

}  // namespace coda::device

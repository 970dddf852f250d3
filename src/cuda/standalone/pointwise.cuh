// SPDX-License-Identifier: Apache-2.0
//
// What generated stand-alone kernels are made of: element access with any strides, and reductions
// whose partials are joined in a fixed order.
#pragma once
#include "../scalar/math.cuh"
#include "../scalar/storage.cuh"

namespace coda::device {

struct View {
  void* data;
  i64 row_stride, column_stride;  // in elements
  CODA_DEVICE i64 at(i64 row, i64 column) const {
    return row * row_stride + column * column_stride;
  }
};

template <Type T>
CODA_DEVICE float real_at(const View& view, i64 row, i64 column) {
  return read_float<T>(view.data, view.at(row, column));
}
template <Type T>
CODA_DEVICE i64 integer_at(const View& view, i64 row, i64 column) {
  return read_integer<T>(view.data, view.at(row, column));
}
template <Type T>
CODA_DEVICE void put(const View& view, i64 row, i64 column, float x) {
  write_float<T>(view.data, view.at(row, column), x);
}
// Integers to integer types saturate.
template <Type T>
CODA_DEVICE void put(const View& view, i64 row, i64 column, i64 x) {
  const i64 at = view.at(row, column);
  if constexpr (T == Type::i64)
    static_cast<i64*>(view.data)[at] = x;
  else if constexpr (T == Type::i32)
    static_cast<int*>(view.data)[at] =
        static_cast<int>(greater(lesser(x, i64{2147483647}), i64{-2147483648ll}));
  else if constexpr (T == Type::u8)
    static_cast<unsigned char*>(view.data)[at] =
        static_cast<unsigned char>(greater(lesser(x, i64{255}), i64{0}));
  else
    write_float<T>(view.data, at, static_cast<float>(x));
}

// ---- states of reductions ----------------------------------------------------------------------
// add() takes the next element, join() another state, in a fixed order; get() gives the result.
// read() takes the partial of one tile of a fused kernel: `words` floats, `stride` apart.

// A sum with its rounding errors beside it, so that its error does not grow with the number of
// terms.
struct Sum {
  static constexpr int words = 1;
  float total = 0.f, lost = 0.f;
  CODA_DEVICE void read(const float* w, i64) { total = w[0]; }
  CODA_DEVICE void add(float x, i64) {
    const float sum = total + x, part = sum - total;
    lost += (total - (sum - part)) + (x - part);
    total = sum;
  }
  CODA_DEVICE void join(const Sum& o) {
    add(o.total, 0);
    lost += o.lost;
  }
  CODA_DEVICE float get(i64) const { return fabsf(total) < kInfinity ? total + lost : total; }
};
struct Mean : Sum {
  CODA_DEVICE float get(i64 count) const { return Sum::get(count) / static_cast<float>(count); }
};
struct IntegerSum {
  static constexpr int words = 1;
  i64 total = 0;
  CODA_DEVICE void read(const float* w, i64) { total = static_cast<i64>(w[0]); }
  CODA_DEVICE void add(i64 x, i64) { total += x; }
  CODA_DEVICE void join(const IntegerSum& o) { total += o.total; }
  CODA_DEVICE i64 get(i64) const { return total; }
};

template <class T>
inline constexpr T kLowest = static_cast<T>(1ull << 63);
template <>
inline constexpr float kLowest<float> = -kInfinity;
template <class T>
inline constexpr T kHighest = static_cast<T>(~0ull >> 1);
template <>
inline constexpr float kHighest<float> = kInfinity;

template <class T>
struct Greatest {
  static constexpr int words = 1;
  T best = kLowest<T>;
  CODA_DEVICE void read(const float* w, i64) { best = static_cast<T>(w[0]); }
  CODA_DEVICE void add(T x, i64) { best = greater(best, x); }
  CODA_DEVICE void join(const Greatest& o) { best = greater(best, o.best); }
  CODA_DEVICE T get(i64) const { return best; }
};
using Max = Greatest<float>;
using IntegerMax = Greatest<i64>;
template <class T>
struct Least {
  static constexpr int words = 1;
  T best = kHighest<T>;
  CODA_DEVICE void read(const float* w, i64) { best = static_cast<T>(w[0]); }
  CODA_DEVICE void add(T x, i64) { best = lesser(best, x); }
  CODA_DEVICE void join(const Least& o) { best = lesser(best, o.best); }
  CODA_DEVICE T get(i64) const { return best; }
};
using Min = Least<float>;
using IntegerMin = Least<i64>;

template <class T>
struct GreatestAt {
  static constexpr int words = 2;
  T best = kLowest<T>;
  i64 index = -1;
  CODA_DEVICE void read(const float* w, i64 stride) {
    best = static_cast<T>(w[0]), index = __float_as_int(w[stride]);
  }
  CODA_DEVICE void add(T x, i64 at) { join({x, at}); }
  CODA_DEVICE void join(const GreatestAt& o) {
    if (precedes(o.best, static_cast<u64>(o.index), best, static_cast<u64>(index))) *this = o;
  }
  CODA_DEVICE i64 get(i64) const { return index; }
};
using ArgMax = GreatestAt<float>;
using IntegerArgMax = GreatestAt<i64>;

// log of the sum of exponentials, relative to the largest so far.
struct LogSumExp {
  static constexpr int words = 2;
  float largest = -kInfinity, total = 0.f;
  CODA_DEVICE void read(const float* w, i64 stride) { largest = w[0], total = w[stride]; }
  CODA_DEVICE void add(float x, i64) { join({x, 1.f}); }
  CODA_DEVICE void join(const LogSumExp& o) {
    const float top = greater(largest, o.largest);
    total = scaled(*this, top) + scaled(o, top);
    largest = top;
  }
  CODA_DEVICE float get(i64) const {
    return largest == -kInfinity || largest == kInfinity ? largest : largest + log(total);
  }
  static CODA_DEVICE float scaled(const LogSumExp& s, float top) {
    return s.largest == top ? s.total : s.total == 0.f ? 0.f : s.total * exp(s.largest - top);
  }
};

struct Moments {
  static constexpr int words = 3;
  float count = 0.f, mean = 0.f, squares = 0.f;
  CODA_DEVICE void read(const float* w, i64 stride) {
    count = w[0], mean = w[stride], squares = w[2 * stride];
  }
  CODA_DEVICE void add(float x, i64) { join({1.f, x, 0.f}); }
  CODA_DEVICE void join(const Moments& o) {
    if (o.count == 0.f) return;
    const float n = count + o.count, share = o.count / n, d = o.mean - mean;
    mean = count == 0.f ? o.mean : mean + d * share;
    squares = count == 0.f ? o.squares : squares + o.squares + d * d * count * share;
    count = n;
  }
};
struct MomentsMean : Moments {
  CODA_DEVICE float get(i64) const { return count > 0.f ? mean : __uint_as_float(0x7FC00000u); }
};
struct MomentsVariance : Moments {
  CODA_DEVICE float get(i64) const { return squares / count; }
};

// The partials of a fused kernel at one row or column, partial[tile][word][at] with words `stride`
// apart, in the order of the tiles.
template <class State>
CODA_DEVICE State joined(const void* partials, i64 tiles, i64 stride, i64 at) {
  State state;
  for (i64 tile = 0; tile < tiles; ++tile) {
    State next;
    next.read(static_cast<const float*>(partials) + tile * State::words * stride + at, stride);
    state.join(next);
  }
  return state;
}

// The column of a row's largest as an index into the whole matrix.
template <class T>
CODA_DEVICE GreatestAt<T> at_row(GreatestAt<T> s, i64 row, i64 columns) {
  if (s.index >= 0) s.index += row * columns;
  return s;
}

// The state of the whole warp, in lane 0: lanes are joined as a tree, always the same one.
template <class State>
CODA_DEVICE void join_warp(State& state) {
  constexpr int words = sizeof(State) / 4;
  static_assert(sizeof(State) % 4 == 0);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    State other;
    u32 bits[words];
    memcpy(bits, &state, sizeof(State));
#pragma unroll
    for (int i = 0; i < words; ++i) bits[i] = __shfl_down_sync(~0u, bits[i], lanes);
    memcpy(&other, bits, sizeof(State));
    state.join(other);
  }
}

// Joins `rows` partials of each of `keys` results, one warp a result; out[key] is the finished
// value.
template <class State, class Result>
CODA_DEVICE void finish_partials(const State* partials, i64 rows, i64 keys, i64 count,
                                 Result* out) {
  const i64 warps = static_cast<i64>(gridDim.x) * (blockDim.x / 32);
  for (i64 key = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; key < keys;
       key += warps) {
    State state;
    for (i64 row = threadIdx.x & 31; row < rows; row += 32) state.join(partials[row * keys + key]);
    join_warp(state);
    if ((threadIdx.x & 31) == 0) out[key] = state.get(count);
  }
}

}  // namespace coda::device

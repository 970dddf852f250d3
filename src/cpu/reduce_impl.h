// SPDX-License-Identifier: Apache-2.0
// Reductions: what a run of neighbouring columns, or a column over its rows, adds to a state, and
// how states combine. Sums go through 16 float64 lanes in a fixed order, so a result has the same
// bits on every instruction set, and no sum overflows that float32 could hold.
#pragma once

#include "cpu/elementwise_impl.h"
#include "cpu/kernels.h"

namespace coda::cpu {
namespace {

inline constexpr int kLanes = 16;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
constexpr double kInfinity = __builtin_inf();

/// Adds term(j) for j in [0, n): lane j % 16 takes it, the lanes are added pairwise at the end.
template <class Term>
[[gnu::always_inline]] inline double sum_lanes(int64_t n, const Term& term) {
  double lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += term(j + l);
  for (int l = 0; l < n - j; ++l) lanes[l] += term(j + l);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

/// The same over floats in memory: the common case, in vectors.
[[gnu::always_inline]] inline double sum_floats(const float* x, int64_t n) {
  Doubles lanes = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Floats terms;
    __builtin_memcpy(&terms, x + j, sizeof terms);  // x is aligned to its elements alone
    lanes += __builtin_convertvector(terms, Doubles);
  }
  for (int l = 0; l < n - j; ++l) lanes[l] += static_cast<double>(x[j + l]);
  double part[kLanes];
  __builtin_memcpy(part, &lanes, sizeof part);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) part[l] += part[l + width];
  return part[0];
}

template <class T>
[[gnu::always_inline]] inline T largest(const T* x, int64_t n, T start) {
  T lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = start;
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = scalar::greater(lanes[l], x[j + l]);
  for (int l = 0; l < n - j; ++l) lanes[l] = scalar::greater(lanes[l], x[j + l]);
  for (int l = 1; l < kLanes; ++l) lanes[0] = scalar::greater(lanes[0], lanes[l]);
  return lanes[0];
}

/// Where a column's terms come from: `rows` of them, `stride` apart, with the index of the first.
struct ColumnTerms {
  int64_t rows, stride;
  int64_t index, index_row, index_column;
};

template <class T>
struct Sum;

template <>
struct Sum<float> {
  using Value = float;
  using State = double;
  static void clear(State& s) { s = 0; }
  static void run(State& s, const float* x, int64_t n, int64_t, int64_t) { s += sum_floats(x, n); }
  static void each(State* __restrict s, const float* x, int64_t n, const ColumnTerms& t) {
    for (int64_t i = 0; i < t.rows; ++i)
      for (int64_t j = 0; j < n; ++j) s[j] += static_cast<double>(x[i * t.stride + j]);
  }
  static void combine(State& s, const State& other) { s += other; }
  static float finish(const State& s, Finish finish, double terms) {
    return static_cast<float>(finish == Finish::mean ? s / terms : s);
  }
};

template <>
struct Sum<int64_t> {
  using Value = int64_t;
  using State = int64_t;
  static void clear(State& s) { s = 0; }
  static void run(State& s, const int64_t* x, int64_t n, int64_t, int64_t) {
    for (int64_t j = 0; j < n; ++j) s += x[j];
  }
  static void each(State* __restrict s, const int64_t* x, int64_t n, const ColumnTerms& t) {
    for (int64_t i = 0; i < t.rows; ++i)
      for (int64_t j = 0; j < n; ++j) s[j] += x[i * t.stride + j];
  }
  static void combine(State& s, const State& other) { s += other; }
  static int64_t finish(const State& s, Finish, double) { return s; }
};

[[gnu::always_inline]] inline float lowest(float) { return -__builtin_inff(); }
[[gnu::always_inline]] inline int64_t lowest(int64_t) { return INT64_MIN; }
[[gnu::always_inline]] inline float highest(float) { return __builtin_inff(); }
[[gnu::always_inline]] inline int64_t highest(int64_t) { return INT64_MAX; }

template <class T>
struct Max {
  using Value = T;
  using State = T;
  static void clear(State& s) { s = lowest(T{}); }
  static void run(State& s, const T* x, int64_t n, int64_t, int64_t) { s = largest(x, n, s); }
  static void each(State* __restrict s, const T* x, int64_t n, const ColumnTerms& t) {
    for (int64_t i = 0; i < t.rows; ++i)
      for (int64_t j = 0; j < n; ++j) s[j] = scalar::greater(s[j], x[i * t.stride + j]);
  }
  static void combine(State& s, const State& other) { s = scalar::greater(s, other); }
  static T finish(const State& s, Finish, double) { return s; }
};

template <class T>
struct Min {
  using Value = T;
  using State = T;
  static void clear(State& s) { s = highest(T{}); }
  static void run(State& s, const T* x, int64_t n, int64_t, int64_t) {
    T lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = s;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] = scalar::lesser(lanes[l], x[j + l]);
    for (int l = 0; l < n - j; ++l) lanes[l] = scalar::lesser(lanes[l], x[j + l]);
    for (int l = 0; l < kLanes; ++l) s = scalar::lesser(s, lanes[l]);
  }
  static void each(State* __restrict s, const T* x, int64_t n, const ColumnTerms& t) {
    for (int64_t i = 0; i < t.rows; ++i)
      for (int64_t j = 0; j < n; ++j) s[j] = scalar::lesser(s[j], x[i * t.stride + j]);
  }
  static void combine(State& s, const State& other) { s = scalar::lesser(s, other); }
  static T finish(const State& s, Finish, double) { return s; }
};

/// log(sum exp x) as a maximum and a sum relative to it. A maximum that is not finite is the
/// result.
struct LogSumExp {
  using Value = float;
  struct State {
    double sum;
    float max;
  };
  static void clear(State& s) { s = {0, lowest(0.0f)}; }
  /// Moves the state to a new maximum, in float64: it happens seldom and must not add up errors.
  static void raise(State& s, float max) {
    if (max == s.max) return;
    s.sum = s.max == lowest(0.0f)
                ? 0
                : s.sum * __builtin_exp(static_cast<double>(s.max) - static_cast<double>(max));
    s.max = max;
  }
  static void run(State& s, const float* x, int64_t n, int64_t, int64_t) {
    const float max = largest(x, n, s.max);
    raise(s, max);
    if (max == lowest(0.0f)) return;
    constexpr int64_t kChunk = 256;
    float exps[kChunk];
    for (int64_t j = 0; j < n; j += kChunk) {
      const int64_t count = n - j < kChunk ? n - j : kChunk;
      for (int64_t l = 0; l < count; ++l) exps[l] = math::exp(x[j + l] - max);
      s.sum += sum_floats(exps, count);
    }
  }
  static void each(State* s, const float* x, int64_t n, const ColumnTerms& t) {
    constexpr int64_t kChunk = 256;
    float max[kChunk], exps[kChunk];
    for (int64_t j = 0; j < n; j += kChunk) {
      const int64_t count = n - j < kChunk ? n - j : kChunk;
      for (int64_t l = 0; l < count; ++l) max[l] = s[j + l].max;
      for (int64_t i = 0; i < t.rows; ++i)
        for (int64_t l = 0; l < count; ++l)
          max[l] = scalar::greater(max[l], x[i * t.stride + j + l]);
      for (int64_t l = 0; l < count; ++l) raise(s[j + l], max[l]);
      for (int64_t i = 0; i < t.rows; ++i) {
        for (int64_t l = 0; l < count; ++l) {
          const float e = math::exp(x[i * t.stride + j + l] - max[l]);
          exps[l] = max[l] == -__builtin_inff() ? 0.0f : e;
        }
        for (int64_t l = 0; l < count; ++l) s[j + l].sum += static_cast<double>(exps[l]);
      }
    }
  }
  static void combine(State& s, const State& other) {
    State moved = other;
    const float max = scalar::greater(s.max, other.max);
    raise(s, max);
    raise(moved, max);
    s.sum += moved.sum;
  }
  static float finish(const State& s, Finish, double) {
    const bool finite = __builtin_fabsf(s.max) < __builtin_inff();
    return finite ? static_cast<float>(static_cast<double>(s.max) + __builtin_log(s.sum)) : s.max;
  }
};

/// The lowest index of the largest element; a NaN counts as larger than any number.
template <class T>
struct ArgMax {
  using Value = T;
  struct State {
    T value;
    int64_t index;  // -1: no element yet
  };
  static void clear(State& s) { s = {lowest(T{}), -1}; }
  static bool better(const State& a, const State& b) {
    if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
    const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
    if (nan_a != nan_b) return nan_a;
    if (!nan_a && a.value != b.value) return a.value > b.value;
    return a.index < b.index;
  }
  static void combine(State& s, const State& other) {
    if (better(other, s)) s = other;
  }
  static void run(State& s, const T* x, int64_t n, int64_t index, int64_t step) {
    if (n == 0) return;
    const T top = largest(x, n, lowest(T{}));
    int64_t j = 0;
    while (!(x[j] == top || x[j] != x[j])) ++j;
    combine(s, {x[j], index + j * step});
  }
  static void each(State* s, const T* x, int64_t n, const ColumnTerms& t) {
    for (int64_t i = 0; i < t.rows; ++i)
      for (int64_t j = 0; j < n; ++j)
        combine(s[j], {x[i * t.stride + j], t.index + i * t.index_row + j * t.index_column});
  }
  static int64_t finish(const State& s, Finish, double) { return s.index; }
};

/// Count, mean and sum of squared deviations (Welford; Chan's rule where two meet).
struct Moments {
  using Value = float;
  struct State {
    double count, mean, deviations;
  };
  static void clear(State& s) { s = {0, 0, 0}; }
  static void combine(State& s, const State& other) {
    if (other.count == 0) return;
    if (s.count == 0) {
      s = other;
      return;
    }
    const double count = s.count + other.count, delta = other.mean - s.mean;
    s.mean += delta * (other.count / count);
    s.deviations += other.deviations + delta * delta * (s.count * (other.count / count));
    s.count = count;
  }
  static void run(State& s, const float* x, int64_t n, int64_t, int64_t) {
    if (n == 0) return;
    const double mean = sum_floats(x, n) / static_cast<double>(n);
    const double deviations = sum_lanes(n, [=](int64_t j) {
      const double d = static_cast<double>(x[j]) - mean;
      return d * d;
    });
    combine(s, {static_cast<double>(n), mean, deviations});
  }
  static void each(State* s, const float* x, int64_t n, const ColumnTerms& t) {
    for (int64_t i = 0; i < t.rows; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double value = static_cast<double>(x[i * t.stride + j]), delta = value - s[j].mean;
        s[j].count += 1;
        s[j].mean += delta / s[j].count;
        s[j].deviations += delta * (value - s[j].mean);
      }
    }
  }
  static float finish(const State& s, Finish finish, double) {
    if (s.count == 0) return __builtin_nanf("");
    return static_cast<float>(finish == Finish::mean ? s.mean : s.deviations / s.count);
  }
};

template <class R>
void accumulate(const ReduceArgs& a) {
  const auto* in = static_cast<const typename R::Value*>(a.in);
  auto* state = static_cast<typename R::State*>(a.state);
  const int64_t step = a.column_index ? 1 : 0;
  if (a.pattern == Pattern::groups) {
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t g = 0; g * a.size < a.columns; ++g)
        R::run(state[i * a.state_stride + g], in + i * a.row_stride + g * a.size, a.size,
               a.first_index + i * a.index_stride + g * a.size * step, step);
    return;
  }
  // Columns keep a state each: all rows at once where the rows are reduced.
  const bool keep_rows = a.state_stride != 0;
  const int64_t outer = keep_rows ? a.rows : 1, inner = keep_rows ? 1 : a.rows;
  for (int64_t i = 0; i < outer; ++i) {
    int64_t phase = a.phase;
    for (int64_t j = 0; j < a.columns;) {
      const int64_t left = a.columns - j, run = a.size - phase < left ? a.size - phase : left;
      R::each(state + i * a.state_stride + phase, in + i * a.row_stride + j, run,
              {inner, a.row_stride, a.first_index + i * a.index_stride + j * step, a.index_stride,
               step});
      j += run, phase = 0;
    }
  }
}

template <class R>
void clear_states(void* states, int64_t count) {
  for (int64_t i = 0; i < count; ++i) R::clear(static_cast<typename R::State*>(states)[i]);
}

template <class R>
void combine_states(void* into, const void* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    R::combine(static_cast<typename R::State*>(into)[i],
               static_cast<const typename R::State*>(from)[i]);
}

template <class R>
void finish_states(const void* states, int64_t count, Finish finish, double terms, void* out) {
  using Result = decltype(R::finish(typename R::State{}, finish, terms));
  for (int64_t i = 0; i < count; ++i)
    static_cast<Result*>(out)[i] =
        R::finish(static_cast<const typename R::State*>(states)[i], finish, terms);
}

template <class R>
Reducer reducer() {
  return {sizeof(typename R::State), clear_states<R>, accumulate<R>, combine_states<R>,
          finish_states<R>};
}

void fill_reducers(Kernels& table) {
  const auto row = [&](Family family) -> Reducer(&)[2] {
    return table.reduce[static_cast<int>(family)];
  };
  row(Family::sum)[0] = reducer<Sum<float>>(), row(Family::sum)[1] = reducer<Sum<int64_t>>();
  row(Family::max)[0] = reducer<Max<float>>(), row(Family::max)[1] = reducer<Max<int64_t>>();
  row(Family::min)[0] = reducer<Min<float>>(), row(Family::min)[1] = reducer<Min<int64_t>>();
  row(Family::argmax)[0] = reducer<ArgMax<float>>(),
  row(Family::argmax)[1] = reducer<ArgMax<int64_t>>();
  row(Family::logsumexp)[0] = reducer<LogSumExp>();
  row(Family::moments)[0] = reducer<Moments>();
}

}  // namespace
}  // namespace coda::cpu

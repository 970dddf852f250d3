// SPDX-License-Identifier: Apache-2.0
// Moves between columns: expansion of groups and periods, split, join and swap. Widths of 4 and 8
// bytes.
#pragma once

#include "cpu/kernels.h"

namespace coda::cpu {
namespace {

template <class T>
[[gnu::always_inline]] inline const T* input_row(const BlockArgs& args, int k, int64_t i) {
  return static_cast<const T*>(args.in[k]) + i * args.row_stride[k];
}

template <class T>
[[gnu::always_inline]] inline T* output_row(const BlockArgs& args, int64_t i) {
  return static_cast<T*>(args.out) + i * args.columns;
}

template <class T>
[[gnu::always_inline]] inline void copy(const T* from, T* __restrict to, int64_t count) {
  for (int64_t j = 0; j < count; ++j) to[j] = from[j];
}

template <class T>
[[gnu::always_inline]] inline void fill(T value, T* to, int64_t count) {
  for (int64_t j = 0; j < count; ++j) to[j] = value;
}

template <class T>
void expand_one(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i)
    fill(input_row<T>(args, 0, i)[0], output_row<T>(args, i), args.columns);
}

template <class T>
void expand_group(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const T* in = input_row<T>(args, 0, i);
    T* out = output_row<T>(args, i);
    for (int64_t g = 0; g < args.columns / args.group; ++g)
      fill(in[g], out + g * args.group, args.group);
  }
}

template <class T>
void expand_period(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const T* in = input_row<T>(args, 0, i);
    T* out = output_row<T>(args, i);
    int64_t phase = args.phase;
    for (int64_t j = 0; j < args.columns;) {
      const int64_t left = args.columns - j,
                    run = args.group - phase < left ? args.group - phase : left;
      copy(in + phase, out + j, run);
      j += run, phase = 0;
    }
  }
}

template <class T, int kPart>
void split(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  const int64_t half = args.half;
  for (int64_t i = 0; i < args.rows; ++i) {
    const T* in = input_row<T>(args, 0, i);
    T* __restrict out = output_row<T>(args, i);
    if (half == 1) {
      for (int64_t j = 0; j < args.columns; ++j) out[j] = in[2 * j + kPart];
    } else {
      for (int64_t j = 0; j < args.columns; j += half)
        copy(in + 2 * j + kPart * half, out + j, half);
    }
  }
}

template <class T, int kVectors>
void join(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  constexpr bool kA = kVectors & 1, kB = kVectors & 2;
  const int64_t half = args.half;
  for (int64_t i = 0; i < args.rows; ++i) {
    const T *a = input_row<T>(args, 0, i), *b = input_row<T>(args, 1, i);
    T* __restrict out = output_row<T>(args, i);
    if (half == 1) {
      for (int64_t j = 0; j < args.columns / 2; ++j) {
        out[2 * j] = a[kA ? j : 0];
        out[2 * j + 1] = b[kB ? j : 0];
      }
      continue;
    }
    for (int64_t j = 0; j < args.columns / 2; j += half) {
      if constexpr (kA)
        copy(a + j, out + 2 * j, half);
      else
        fill(a[0], out + 2 * j, half);
      if constexpr (kB)
        copy(b + j, out + 2 * j + half, half);
      else
        fill(b[0], out + 2 * j + half, half);
    }
  }
}

template <class T>
void swap(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const T* in = input_row<T>(args, 0, i);
    T* out = output_row<T>(args, i);
    for (int64_t j = 0; j < args.columns; j += args.group) {
      copy(in + j + args.half, out + j, args.half);
      copy(in + j, out + j + args.half, args.half);
      copy(in + j + 2 * args.half, out + j + 2 * args.half, args.group - 2 * args.half);
    }
  }
}

void index(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    int64_t* out = output_row<int64_t>(args, i);
    const int64_t first = args.phase + i * args.row_stride[0];
    for (int64_t j = 0; j < args.columns; ++j) out[j] = first + j * args.row_stride[1];
  }
}

template <class T, int kWide>
void fill_pairs_of(Kernels& table) {
  table.expand_one[kWide] = expand_one<T>;
  table.expand_group[kWide] = expand_group<T>;
  table.expand_period[kWide] = expand_period<T>;
  table.split[kWide][0] = split<T, 0>, table.split[kWide][1] = split<T, 1>;
  table.join[kWide][0] = join<T, 0>, table.join[kWide][1] = join<T, 1>;
  table.join[kWide][2] = join<T, 2>, table.join[kWide][3] = join<T, 3>;
  table.swap[kWide] = swap<T>;
}

void fill_pairs(Kernels& table) {
  fill_pairs_of<uint32_t, 0>(table);
  fill_pairs_of<uint64_t, 1>(table);
  table.index = index;
}

}  // namespace
}  // namespace coda::cpu

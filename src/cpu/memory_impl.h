// SPDX-License-Identifier: Apache-2.0
// Loads and stores: any storage type, any strides; contiguous rows are the fast path. A load of a
// float type gives float32, of an integer type int64; a store rounds once and integers saturate.
#pragma once

#include "base/convert.h"
#include "cpu/kernels.h"

namespace coda::cpu {
namespace {

[[gnu::always_inline]] inline float load_value(float x) { return x; }
[[gnu::always_inline]] inline float load_value(double x) { return static_cast<float>(x); }
[[gnu::always_inline]] inline float load_value(Bf16 x) { return to_f32(x); }
[[gnu::always_inline]] inline float load_value(F16 x) { return to_f32(x); }
[[gnu::always_inline]] inline float load_value(E4m3 x) { return to_f32(x); }
[[gnu::always_inline]] inline float load_value(E5m2 x) { return to_f32(x); }
[[gnu::always_inline]] inline int64_t load_value(int64_t x) { return x; }
[[gnu::always_inline]] inline int64_t load_value(int32_t x) { return x; }
[[gnu::always_inline]] inline int64_t load_value(uint8_t x) { return x; }

template <class T>
void load(const MemoryArgs& call) {
  const MemoryArgs args = call;  // a copy that no store can change
  using Value = decltype(load_value(T{}));
  for (int64_t i = 0; i < args.rows; ++i) {
    const T* from = reinterpret_cast<const T*>(args.memory) + i * args.row_stride;
    Value* __restrict to = static_cast<Value*>(args.slot) + i * args.slot_stride;
    if (args.column_stride == 1) {
      for (int64_t j = 0; j < args.columns; ++j) to[j] = load_value(from[j]);
    } else if (args.column_stride == 0) {
      const Value value = load_value(from[0]);
      for (int64_t j = 0; j < args.columns; ++j) to[j] = value;
    } else {
      for (int64_t j = 0; j < args.columns; ++j) to[j] = load_value(from[j * args.column_stride]);
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void store_value(float x, T& to);
template <>
inline void store_value(float x, float& to) {
  to = x;
}
template <>
inline void store_value(float x, double& to) {
  to = x;
}
template <>
inline void store_value(float x, Bf16& to) {
  to = to_bf16(x);
}
template <>
inline void store_value(float x, F16& to) {
  to = to_f16(x);
}
template <>
inline void store_value(float x, E4m3& to) {
  to = to_e4m3(x);
}
template <>
inline void store_value(float x, E5m2& to) {
  to = to_e5m2(x);
}

template <class T>
void store(const MemoryArgs& call) {
  const MemoryArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const float* from = static_cast<const float*>(args.slot) + i * args.slot_stride;
    T* __restrict to = reinterpret_cast<T*>(args.memory) + i * args.row_stride;
    if (args.column_stride == 1 && args.slot_step == 1) {
      for (int64_t j = 0; j < args.columns; ++j) store_value(from[j], to[j]);
    } else {
      for (int64_t j = 0; j < args.columns; ++j)
        store_value(from[j * args.slot_step], to[j * args.column_stride]);
    }
  }
}

/// Integers saturate; to a float type they are rounded once, which takes more than float32.
template <DType kType>
void store_integers(const MemoryArgs& call) {
  const MemoryArgs args = call;  // a copy that no store can change
  constexpr auto kBytes = static_cast<int64_t>(size_of(kType));
  for (int64_t i = 0; i < args.rows; ++i) {
    const int64_t* from = static_cast<const int64_t*>(args.slot) + i * args.slot_stride;
    std::byte* to = args.memory + i * args.row_stride * kBytes;
    for (int64_t j = 0; j < args.columns; ++j) {
      const int64_t value = from[j * args.slot_step];
      std::byte* at = to + j * args.column_stride * kBytes;
      if constexpr (kType == DType::i64)
        *reinterpret_cast<int64_t*>(at) = value;
      else if constexpr (kType == DType::i32)
        *reinterpret_cast<int32_t*>(at) = static_cast<int32_t>(value < INT32_MIN   ? INT32_MIN
                                                               : value > INT32_MAX ? INT32_MAX
                                                                                   : value);
      else if constexpr (kType == DType::u8)
        *reinterpret_cast<uint8_t*>(at) = static_cast<uint8_t>(value < 0     ? 0
                                                               : value > 255 ? 255
                                                                             : value);
      else
        store_integer(at, kType, value);
    }
  }
}

void fill_memory(Kernels& table) {
  const auto at = [](DType type) { return static_cast<int>(type); };
  table.load[at(DType::f64)] = load<double>, table.load[at(DType::f32)] = load<float>;
  table.load[at(DType::bf16)] = load<Bf16>, table.load[at(DType::f16)] = load<F16>;
  table.load[at(DType::e4m3)] = load<E4m3>, table.load[at(DType::e5m2)] = load<E5m2>;
  table.load[at(DType::i64)] = load<int64_t>, table.load[at(DType::i32)] = load<int32_t>;
  table.load[at(DType::u8)] = load<uint8_t>;
  auto& real = table.store[0];
  real[at(DType::f64)] = store<double>, real[at(DType::f32)] = store<float>;
  real[at(DType::bf16)] = store<Bf16>, real[at(DType::f16)] = store<F16>;
  real[at(DType::e4m3)] = store<E4m3>, real[at(DType::e5m2)] = store<E5m2>;
  auto& integer = table.store[1];
  integer[at(DType::f64)] = store_integers<DType::f64>;
  integer[at(DType::f32)] = store_integers<DType::f32>;
  integer[at(DType::bf16)] = store_integers<DType::bf16>;
  integer[at(DType::f16)] = store_integers<DType::f16>;
  integer[at(DType::e4m3)] = store_integers<DType::e4m3>;
  integer[at(DType::e5m2)] = store_integers<DType::e5m2>;
  integer[at(DType::i64)] = store_integers<DType::i64>;
  integer[at(DType::i32)] = store_integers<DType::i32>;
  integer[at(DType::u8)] = store_integers<DType::u8>;
}

}  // namespace
}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
// Loops over the scalar expressions of <coda/elementwise.def>: one row there is one operation here.
// Compiled once for each instruction set; see kernels.h.
#pragma once

#include "base/convert.h"
#include "cpu/kernels.h"
#include "cpu/math.h"

namespace coda::cpu {
namespace {

using Mask = int32_t;

namespace scalar {

using math::cos;
using math::erf;
using math::exp;
using math::log;
using math::rsqrt;
using math::sigmoid;
using math::sin;
using math::sqrt;
using math::tanh;

[[gnu::always_inline]] inline float quotient(float a, float b) { return a / b; }
[[gnu::always_inline]] inline float absolute(float a) { return __builtin_fabsf(a); }
[[gnu::always_inline]] inline int64_t absolute(int64_t a) { return a < 0 ? -a : a; }
template <class T>
[[gnu::always_inline]] inline T lesser(T a, T b) {
  const T other = a < b ? a : b;  // b where it is a NaN
  return a != a ? a : other;
}
template <class T>
[[gnu::always_inline]] inline T greater(T a, T b) {
  const T other = a > b ? a : b;
  return a != a ? a : other;
}
/// a modulo b with the sign of b; 0 where b is 0.
[[gnu::always_inline]] inline int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}

enum class Kind { real, number, integer, compare, select };

#define CODA_OP(name, arity_, kind_, ulps, expression, ...)                                     \
  struct name##_op {                                                                            \
    static constexpr int arity = arity_;                                                        \
    static constexpr Kind kind = Kind::kind_;                                                   \
    template <class A, class T>                                                                 \
    [[gnu::always_inline]] static inline auto apply([[maybe_unused]] A a, [[maybe_unused]] T b, \
                                                    [[maybe_unused]] T c) {                     \
      return expression;                                                                        \
    }                                                                                           \
  };
#include <coda/elementwise.def>

}  // namespace scalar

template <bool kVector, class T>
[[gnu::always_inline]] inline T element(const T* p, int64_t j) {
  return kVector ? p[j] : p[0];
}

template <class Op, class A, class T, class R, int kVectors>
void elementwise(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  constexpr bool kA = kVectors & 1, kB = kVectors & 2, kC = kVectors & 4;
  for (int64_t i = 0; i < args.rows; ++i) {
    // Operands that the operation lacks are never read: the pointers stand in for them.
    const A* a = static_cast<const A*>(args.in[0]) + i * args.row_stride[0];
    const T* b =
        Op::arity > 1 ? static_cast<const T*>(args.in[1]) + i * args.row_stride[1] : nullptr;
    const T* c =
        Op::arity > 2 ? static_cast<const T*>(args.in[2]) + i * args.row_stride[2] : nullptr;
    R* __restrict out = static_cast<R*>(args.out) + i * args.out_stride;
    for (int64_t j = 0; j < args.columns; ++j) {
      T second{}, third{};
      if constexpr (Op::arity > 1) second = element<kB>(b, j);
      if constexpr (Op::arity > 2) third = element<kC>(c, j);
      out[j] = static_cast<R>(Op::apply(element<kA>(a, j), second, third));
    }
  }
}

template <class Op, class A, class T, class R>
void fill_vectors(BlockKernel (&row)[8]) {
  constexpr int kUsed = (1 << Op::arity) - 1;
  row[0] = elementwise<Op, A, T, R, 0>;
  row[1] = elementwise<Op, A, T, R, 1>;
  row[2] = elementwise<Op, A, T, R, 2 & kUsed>;
  row[3] = elementwise<Op, A, T, R, 3 & kUsed>;
  row[4] = elementwise<Op, A, T, R, 4 & kUsed>;
  row[5] = elementwise<Op, A, T, R, 5 & kUsed>;
  row[6] = elementwise<Op, A, T, R, 6 & kUsed>;
  row[7] = elementwise<Op, A, T, R, 7 & kUsed>;
}

template <class Op>
void fill_op(BlockKernel (&op)[2][8]) {
  using scalar::Kind;
  if constexpr (Op::kind == Kind::real) {
    fill_vectors<Op, float, float, float>(op[0]);
  } else if constexpr (Op::kind == Kind::number) {
    fill_vectors<Op, float, float, float>(op[0]);
    fill_vectors<Op, int64_t, int64_t, int64_t>(op[1]);
  } else if constexpr (Op::kind == Kind::integer) {
    fill_vectors<Op, int64_t, int64_t, int64_t>(op[1]);
  } else if constexpr (Op::kind == Kind::compare) {
    fill_vectors<Op, float, float, Mask>(op[0]);
    fill_vectors<Op, int64_t, int64_t, Mask>(op[1]);
  } else {
    fill_vectors<Op, Mask, float, float>(op[0]);
    fill_vectors<Op, Mask, int64_t, int64_t>(op[1]);
  }
}

/// sin or cos of a float, right for any size of it.
template <bool kSine, bool kVector>
void sine(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const float* a = static_cast<const float*>(args.in[0]) + i * args.row_stride[0];
    float* out = static_cast<float*>(args.out) + i * args.out_stride;
    const auto angle = [=](size_t j) {
      return static_cast<double>(element<kVector>(a, static_cast<int64_t>(j)));
    };
    const auto n = static_cast<size_t>(args.columns);
    if constexpr (kSine)
      math::detail::by_blocks(angle, math::detail::sin_angle, math::detail::sin_any, out, n);
    else
      math::detail::by_blocks(angle, math::detail::cos_angle, math::detail::cos_any, out, n);
  }
}

/// sin or cos of the unrounded product of an integer and a float.
template <bool kSine, int kVectors>
void sine_product(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const int64_t* a = static_cast<const int64_t*>(args.in[0]) + i * args.row_stride[0];
    const float* b = static_cast<const float*>(args.in[1]) + i * args.row_stride[1];
    float* out = static_cast<float*>(args.out) + i * args.out_stride;
    const auto angle = [=](size_t j) {
      const auto at = static_cast<int64_t>(j);
      return math::detail::to_double(element<(kVectors & 1) != 0>(a, at)) *
             static_cast<double>(element<(kVectors & 2) != 0>(b, at));
    };
    const auto n = static_cast<size_t>(args.columns);
    if constexpr (kSine)
      math::detail::by_blocks(angle, math::detail::sin_angle, math::detail::sin_any, out, n);
    else
      math::detail::by_blocks(angle, math::detail::cos_angle, math::detail::cos_any, out, n);
  }
}

template <class From, class To>
void convert(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const From* in = static_cast<const From*>(args.in[0]) + i * args.row_stride[0];
    To* __restrict out = static_cast<To*>(args.out) + i * args.out_stride;
    for (int64_t j = 0; j < args.columns; ++j) out[j] = static_cast<To>(in[j]);
  }
}

void to_mask(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const int64_t* in = static_cast<const int64_t*>(args.in[0]) + i * args.row_stride[0];
    Mask* __restrict out = static_cast<Mask*>(args.out) + i * args.out_stride;
    for (int64_t j = 0; j < args.columns; ++j) out[j] = in[j] != 0;
  }
}

template <class Storage>
[[gnu::always_inline]] inline float through(float x);
template <>
inline float through<Bf16>(float x) {
  return to_f32(to_bf16(x));
}
template <>
inline float through<F16>(float x) {
  return to_f32(to_f16(x));
}
template <>
inline float through<E4m3>(float x) {
  return to_f32(to_e4m3(x));
}
template <>
inline float through<E5m2>(float x) {
  return to_f32(to_e5m2(x));
}

template <class Storage>
void round_through(const BlockArgs& call) {
  const BlockArgs args = call;  // a copy that no store can change
  for (int64_t i = 0; i < args.rows; ++i) {
    const float* in = static_cast<const float*>(args.in[0]) + i * args.row_stride[0];
    float* __restrict out = static_cast<float*>(args.out) + i * args.out_stride;
    for (int64_t j = 0; j < args.columns; ++j) out[j] = through<Storage>(in[j]);
  }
}

void fill_elementwise(Kernels& table) {
  int op = 0;
#define CODA_OP(name, ...) fill_op<scalar::name##_op>(table.elementwise[op++]);
#include <coda/elementwise.def>
  table.sine[0] = sine<true, false>, table.sine[1] = sine<true, true>;
  table.cosine[0] = sine<false, false>, table.cosine[1] = sine<false, true>;
  table.sine_product[0] = sine_product<true, 0>, table.sine_product[1] = sine_product<true, 1>;
  table.sine_product[2] = sine_product<true, 2>, table.sine_product[3] = sine_product<true, 3>;
  table.cosine_product[0] = sine_product<false, 0>,
  table.cosine_product[1] = sine_product<false, 1>;
  table.cosine_product[2] = sine_product<false, 2>,
  table.cosine_product[3] = sine_product<false, 3>;
  const auto at = [](Lane lane) { return static_cast<int>(lane); };
  table.convert[at(Lane::i64)][at(Lane::f32)] = convert<int64_t, float>;
  table.convert[at(Lane::mask)][at(Lane::f32)] = convert<Mask, float>;
  table.convert[at(Lane::mask)][at(Lane::i64)] = convert<Mask, int64_t>;
  table.convert[at(Lane::i64)][at(Lane::mask)] = to_mask;
  table.round[static_cast<int>(DType::bf16)] = round_through<Bf16>;
  table.round[static_cast<int>(DType::f16)] = round_through<F16>;
  table.round[static_cast<int>(DType::e4m3)] = round_through<E4m3>;
  table.round[static_cast<int>(DType::e5m2)] = round_through<E5m2>;
}

}  // namespace
}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
//
// Fragments and their way through swizzled shared memory.
//
// A fragment is float v[4 * blocks] per lane: v[4 b + e] is row l / 4 + 8 (e / 2), column 2 (l % 4)
// + e % 2 of a block of 16 rows and 8 columns. Where its blocks lie in a chunk is a list of
// positions, in blocks. In shared memory a chunk lies in panels of 16 rows of P = 32, 64 or 128
// bytes under the swizzle of that width: the 16-byte unit u of row r is at u ^ (r / (128 / P)) % (P
// / 16). 16-bit types move by stmatrix and ldmatrix, two blocks at a time; others by pairs of
// columns.
#pragma once
#include "../scalar/storage.cuh"
#include "barrier.cuh"

namespace coda::device {

// ---- shared memory -----------------------------------------------------------------------------

#define CODA_SHARED(suffix, type, ptx, constraint)                                        \
  CODA_DEVICE void shared_store##suffix(u32 at, type x) {                                 \
    asm volatile("st.shared." ptx " [%0], %1;" ::"r"(at), constraint(x) : "memory");      \
  }                                                                                       \
  CODA_DEVICE type shared_load##suffix(u32 at) {                                          \
    type x;                                                                               \
    asm volatile("ld.shared." ptx " %0, [%1];" : "=" constraint(x) : "r"(at) : "memory"); \
    return x;                                                                             \
  }
CODA_SHARED(, float, "f32", "f")
CODA_SHARED(_u16, unsigned short, "u16", "h")
CODA_SHARED(_i64, i64, "s64", "l")

CODA_DEVICE void shared_store2(u32 at, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}
CODA_DEVICE void shared_load2(u32 at, u32& x, u32& y) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at) : "memory");
}

// Byte offset of (row, byte) in a panel of P-byte rows. Further 16-byte units, and rows + 8, are
// reached by exclusive-or and by + 8 P.
template <int P>
CODA_DEVICE u32 swizzled(u32 row, u32 byte) {
  constexpr u32 shift = P == 128 ? 0 : P == 64 ? 1 : 2;
  return row * P + (byte ^ ((row >> shift) & (P / 16 - 1)) << 4);
}

// Where this lane's part of blocks `at` and `next` (in blocks of 8 columns of 16-bit values) is:
// lanes 0-15 address the rows of the one, lanes 16-31 those of the other, which must be in the same
// panel.
template <int P>
CODA_DEVICE u32 matrix_address(u32 slot, u32 lane, int at, int next) {
  const u32 mine = slot + swizzled<P>(lane & 15, (lane >> 4) * 16 * (at ^ next));
  return (mine + at * 16 / P * (16 * P)) ^ (at * 16 % P);
}
template <int P, int Bytes>
CODA_DEVICE u32 pair_address(u32 slot, u32 lane, int at) {
  const u32 mine = slot + swizzled<P>(lane >> 2, (lane & 3) * 2 * Bytes);
  return (mine + at * 8 * Bytes / P * (16 * P)) ^ (at * 8 * Bytes % P);
}

// Writes a fragment into the slot of a port whose panels are P bytes wide; at(b) is block b's
// position.
template <Type T, int P, int Blocks, class At>
CODA_DEVICE void fragment_store(u32 slot, u32 lane, const float (&v)[4 * Blocks], At at) {
  constexpr int bytes = type_bytes(T);
  if constexpr (bytes == 2 && Blocks == 1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(
                     matrix_address<P>(slot, lane & 15, at(0), at(0))),
                 "r"(pack<T>(v[0], v[1])), "r"(pack<T>(v[2], v[3]))
                 : "memory");
  } else if constexpr (bytes == 2) {
#pragma unroll
    for (int b = 0; b < Blocks; b += 2) {
      const float* x = v + 4 * b;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       matrix_address<P>(slot, lane, at(b), at(b + 1))),
                   "r"(pack<T>(x[0], x[1])), "r"(pack<T>(x[2], x[3])), "r"(pack<T>(x[4], x[5])),
                   "r"(pack<T>(x[6], x[7]))
                   : "memory");
    }
  } else {
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      const u32 to = pair_address<P, bytes>(slot, lane, at(b));
      const float* x = v + 4 * b;
      if constexpr (bytes == 4) {
        shared_store2(to, x[0], x[1]);
        shared_store2(to + 8 * P, x[2], x[3]);
      } else {
        shared_store_u16(to, static_cast<unsigned short>(pack<T>(x[0], x[1])));
        shared_store_u16(to + 8 * P, static_cast<unsigned short>(pack<T>(x[2], x[3])));
      }
    }
  }
}

// Reads one as it is stored, and makes values of it. Apart, so that the next strip's words can be
// on their way before this strip's stores.
template <Type T, int P, int Blocks, class At>
CODA_DEVICE void fragment_fetch(u32 slot, u32 lane, u32* r, At at) {
  constexpr int bytes = type_bytes(T);
  if constexpr (bytes == 2 && Blocks == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(matrix_address<P>(slot, lane & 15, at(0), at(0)))
                 : "memory");
  } else if constexpr (bytes == 2) {
#pragma unroll
    for (int b = 0; b < Blocks; b += 2)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(r[2 * b]), "=r"(r[2 * b + 1]), "=r"(r[2 * b + 2]), "=r"(r[2 * b + 3])
                   : "r"(matrix_address<P>(slot, lane, at(b), at(b + 1)))
                   : "memory");
  } else {
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      const u32 from = pair_address<P, bytes>(slot, lane, at(b));
      if constexpr (bytes == 4) {
        shared_load2(from, r[4 * b], r[4 * b + 1]);
        shared_load2(from + 8 * P, r[4 * b + 2], r[4 * b + 3]);
      } else {
        r[2 * b] = shared_load_u16(from);
        r[2 * b + 1] = shared_load_u16(from + 8 * P);
      }
    }
  }
}
template <Type T, int Blocks>
CODA_DEVICE void fragment_values(const u32* r, float (&v)[4 * Blocks]) {
#pragma unroll
  for (int i = 0; i < 2 * Blocks; ++i) {
    if constexpr (T == Type::f32) {
      v[2 * i] = as_float(r[2 * i]);
      v[2 * i + 1] = as_float(r[2 * i + 1]);
    } else {
      unpack<T>(r[i], v[2 * i], v[2 * i + 1]);
    }
  }
}

// ---- pairs of columns --------------------------------------------------------------------------
//
// x takes the first columns of all pairs, y the second. Pairs a multiple of 8 columns apart are
// renaming, because a strip lists the blocks of x first; neighbours (Pair = 1) move inside a quad.

template <int Pair, int N>
CODA_DEVICE void split_columns(const float (&v)[N], float (&x)[N / 2], float (&y)[N / 2]) {
  const u32 quad = threadIdx.x & 3;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    if constexpr (Pair != 1) {
      x[i] = v[i];
      y[i] = v[i + N / 2];
    } else {  // blocks 2 b and 2 b + 1 make block b = i / 4
      const int at = i / 4 * 8 + (i & 2);
      const u32 lane = (threadIdx.x & 28) + 2 * (quad & 1) + (i & 1);
      const float x0 = __shfl_sync(~0u, v[at], lane), x1 = __shfl_sync(~0u, v[at + 4], lane);
      const float y0 = __shfl_sync(~0u, v[at + 1], lane), y1 = __shfl_sync(~0u, v[at + 5], lane);
      x[i] = quad < 2 ? x0 : x1;
      y[i] = quad < 2 ? y0 : y1;
    }
  }
}

template <int Pair, int N>
CODA_DEVICE void join_columns(const float (&x)[N / 2], const float (&y)[N / 2], float (&v)[N]) {
  const u32 quad = threadIdx.x & 3;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    if constexpr (Pair != 1) {
      v[i] = x[i];
      v[i + N / 2] = y[i];
    } else {  // i = 4 b + 2 r + side: row r of the left or right block made of block b
      const int from = i & ~1, to = i / 4 * 8 + (i & 2) + 4 * (i & 1);
      const u32 lane = (threadIdx.x & 28) + (quad >> 1) + 2 * (i & 1);
      const float x0 = __shfl_sync(~0u, x[from], lane), x1 = __shfl_sync(~0u, x[from + 1], lane);
      const float y0 = __shfl_sync(~0u, y[from], lane), y1 = __shfl_sync(~0u, y[from + 1], lane);
      v[to] = quad & 1 ? x1 : x0;
      v[to + 1] = quad & 1 ? y1 : y0;
    }
  }
}

}  // namespace coda::device

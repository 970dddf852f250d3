// SPDX-License-Identifier: Apache-2.0
// The inner loops of the backend, as tables of function pointers, one table per instruction set.
//
// Everything here is plain data: the files behind it are compiled for instruction sets that the
// running processor may lack, so no inline function of the standard library may be shared with
// them.
//
// A block is `rows` x `columns` elements. An operand has a pointer and a row stride in elements;
// whether it varies along the columns is part of the function chosen ("vector"), or else it is one
// element a row. Results are packed. No result overlaps an operand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa.h"

namespace coda::cpu {

/// How a value lies in a slot. Masks are 0 or 1.
enum class Lane : unsigned char { f32, i64, mask };

constexpr size_t size_of(Lane lane) { return lane == Lane::i64 ? 8 : 4; }

struct BlockArgs {
  int64_t rows, columns;
  void* out;
  const void* in[3];
  int64_t row_stride[3];
  int64_t half, group;  // pairs; group also: elements per group or per period of an expansion
  int64_t phase;        // expansion of a period: index of the first column
  int64_t out_stride;   // of pointwise kernels
};
using BlockKernel = void (*)(const BlockArgs&);

/// Memory against a slot. For loads `slot` is packed; for stores it has slot_stride and may be one
/// element a row (slot_step 0).
struct MemoryArgs {
  int64_t rows, columns;
  std::byte* memory;
  int64_t row_stride, column_stride;
  void* slot;
  int64_t slot_stride, slot_step;
};
using MemoryKernel = void (*)(const MemoryArgs&);

/// The families of reductions; mean is a sum with another end.
enum class Family : unsigned char { sum, max, min, logsumexp, argmax, moments };
inline constexpr int kFamilies = 6;

/// How the columns of a block go to states: `groups` of neighbouring columns to one state each, or
/// each column to its own, state (phase + j) % size of a period.
enum class Pattern : unsigned char { groups, period };

struct ReduceArgs {
  int64_t rows, columns;
  const void* in;
  int64_t row_stride;  // 0 with rows of one value
  Pattern pattern;
  int64_t size, phase;
  void* state;
  int64_t state_stride;  // in states from row to row; 0: the rows are reduced
  int64_t first_index;   // what argmax calls element (0, 0)
  int64_t index_stride;  // from row to row
  bool column_index;     // whether the index grows along the columns
};

enum class Finish : unsigned char { value, mean, variance };

/// One family over one lane type. States are plain bytes, aligned to 8.
struct Reducer {
  size_t state_bytes;
  void (*clear)(void* states, int64_t count);
  void (*accumulate)(const ReduceArgs&);
  void (*combine)(void* into, const void* from, int64_t count);
  /// Writes float32 or int64 (integer sums, max, min; every argmax). `terms`: elements of each, for
  /// means.
  void (*finish)(const void* states, int64_t count, Finish finish, double terms, void* out);
};

/// c [m, n] = a [m, k] b [n, k] transposed, or added to c. Strides in elements; rows of c are
/// packed to ldc. `scratch` has gemm_scratch floats.
struct GemmArgs {
  int64_t m, n, k;
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_row, b_k;
  float* c;
  int64_t ldc;
  bool accumulate;
  float* scratch;
};

inline constexpr int kOps = 0
#define CODA_OP(...) +1
#include <coda/elementwise.def>
    ;
inline constexpr int kDtypes = 9;

struct Kernels {
  /// By operation, by whether the numbers are integers, by which operands are vectors (bits).
  BlockKernel elementwise[kOps][2][8];
  BlockKernel sine[2], cosine[2];                  // of a float, any size; by vector
  BlockKernel sine_product[4], cosine_product[4];  // of int64 times float
  BlockKernel convert[3][3];                       // from, to
  BlockKernel round[kDtypes];
  BlockKernel expand_group[2], expand_period[2], expand_one[2];  // by whether 8 bytes wide
  BlockKernel split[2][2];                                       // by width, by part
  BlockKernel join[2][4];  // by width, by which halves are vectors
  BlockKernel swap[2];
  BlockKernel index;               // int64: phase + row_stride[0] i + row_stride[1] j
  MemoryKernel load[kDtypes];      // float32 from float types, int64 from the others
  MemoryKernel store[2][kDtypes];  // from float32, from int64
  Reducer reduce[kFamilies][2];    // of float32, of int64
  void (*gemm)(const GemmArgs&);
  int64_t (*gemm_scratch)(int64_t m, int64_t n, int64_t k);
};

/// The table for an instruction set that supports() holds for.
const Kernels& kernels(Isa isa);

}  // namespace coda::cpu

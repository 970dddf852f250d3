// SPDX-License-Identifier: Apache-2.0
// The float64 reference: evaluates a program on whole matrices, straight from the IR, and bounds
// how far a correct float32 evaluation may be from it.
//
// Mode::contract follows the numeric contract (docs/design.md): every operation adds its stated
// error, errors propagate through the derivatives of the operation table, and where a compare, an
// argmax or a rounding lies within its error, either side is right. Mode::exact is plain float64
// arithmetic without any rounding (round() is the identity), which finite differences need.
//
// Nothing here is shared with a backend: no tiles, no tape, no float32 functions.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "call/call.h"
#include "ir/program.h"

namespace coda::reference {

/// A value over its own dims, row-major. Floats stand in `value`, integers and masks in `integer`;
/// the other one is empty. `error` bounds the distance of each element from a correct evaluation:
/// empty means that all are exact, infinity that any result is right.
struct Dense {
  int64_t rows = 1, columns = 1;
  std::vector<double> value, error;
  std::vector<int64_t> integer;

  int64_t size() const { return rows * columns; }
};

enum class Mode : unsigned char { contract, exact };

struct Options {
  Mode mode = Mode::contract;
  DType type = DType::f32;  // the type parameter T
  double* nearest_kink =
      nullptr;  // if set, lowered to the least distance of any operand from a point
                // where the program is not differentiable (a tie, a compared value)
};

/// Rows and columns of a value over `dims`, where symbol i has symbols[i]. Throws Error{shape}
/// where a size does not divide exactly.
struct Extent {
  int64_t rows, columns;
};
Extent extent(const ir::Dims& dims, std::span<const int64_t> symbols);

/// Values of the outputs before the rounding of their store. inputs[i] is the value of input i:
/// accumulators as finished [M, N] matrices, scalars as one element.
std::vector<Dense> evaluate(const ir::Program& program, std::span<const int64_t> symbols,
                            std::span<const Dense> inputs, const Options& options);

/// What an accumulator of operands of a type may be off by, in units of |A| |B|^T. Float32 sums of
/// exact bf16 products stay within 2^-22; where products round as well (f32, and f16 as the CPU
/// multiplies it), one element in 10^5 was seen beyond, by up to a half (K from 40 to 520, normal
/// operands).
inline double product_unit(DType operands) { return operands == DType::bf16 ? 0x1p-22 : 0x1p-21; }

/// Adds A B^T to `accumulator`, and unit |A| |B|^T to its error. A is [M, K], B is [N, K],
/// row-major.
void add_product(std::span<const double> a, std::span<const double> b, int64_t k, double unit,
                 Dense& accumulator);

/// Sums of more terms carry what tensor cores truncate as well. An instruction adds 16 products of
/// bf16 or f16 to the running sum S and drops what float32 has no bits for, always towards zero: up
/// to 2^-23 |S| each time, which for terms of both signs grows like K^1.5, beyond |A| |B|^T.
inline constexpr int64_t kLongSum = 4096;

/// add_product() of such a sum: the error is the larger of the two.
void add_long_product(std::span<const double> a, std::span<const double> b, int64_t k, double unit,
                      Dense& accumulator);

/// A finished accumulator: the sum of products of operands in memory.
Dense accumulate(std::span<const Product> products, int64_t m, int64_t n);

/// The inputs of a call: loads every tensor (and multiplies the operands of accumulators).
std::vector<Dense> inputs_of(const ir::Program& program, const BoundCall& call);

/// How far the elements of an output are from the reference.
struct Comparison {
  int64_t elements = 0;
  int64_t failures = 0;         // elements beyond their tolerance
  double ratio = 0;             // largest error / tolerance; above 1 (or infinite) is a failure
  int64_t row = 0, column = 0;  // the element with that ratio
  double got = 0, expected = 0, tolerance = 0;

  bool ok() const { return failures == 0; }
};

/// Compares memory with the reference. The tolerance is the reference's error, one ulp of the
/// storage type and 2^-120; saturation of fp8 and integers and overflow to infinity are as a store
/// makes them. NaN equals NaN.
Comparison compare(const Binding& output, const Dense& expected);

/// "element [3, 17] is 1.5, expected 2 within 0.01; 12 of 384 elements are off".
std::string to_string(const Comparison& comparison);

}  // namespace coda::reference

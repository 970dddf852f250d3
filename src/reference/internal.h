// SPDX-License-Identifier: Apache-2.0
// What the files of the evaluator share: broadcasting and the evaluation of single nodes.
#pragma once

#include <array>

#include "reference/reference.h"

namespace coda::reference {

inline bool is_integer(const ir::ValueInfo& info) { return info.number != ir::Number::real; }

/// Error of element i.
inline double error_at(const Dense& x, size_t i) { return x.error.empty() ? 0 : x.error[i]; }

/// An empty value with room for its elements.
Dense make(Extent extent, bool integer);

/// Drops the error array where every element is exact.
void trim(Dense& x);

/// A copy of `x`, a value over `from`, with the extent of `to`, to which `from` broadcasts.
Dense broadcast(const Dense& x, const ir::Dims& from, const ir::Dims& to,
                std::span<const int64_t> symbols);

/// The element copied to each place of the result: columns[j] is the source column of column j.
Dense gather(const Dense& x, const std::vector<int64_t>& columns);

/// Integers and masks as floats (float32 in Mode::contract); floats stay.
Dense to_real(Dense x, Mode mode);

/// One elementwise operation on operands of one extent. The result is an integer where info says
/// so.
Dense elementwise(ir::Op op, const std::array<const Dense*, 3>& args, bool integer_result,
                  const Options& options);

/// sin or cos of the product of an integer and a float, which the contract keeps as two floats.
Dense product(const Dense& integer, const Dense& real, const Options& options);
Dense sine_of_product(ir::Op op, const Dense& product, const Options& options);

Dense round(Dense x, DType type);

/// One reduction of a value over `from`; `integers`: of integers or masks.
Dense reduce(const ir::Reduce& node, const Dense& x, const ir::Dims& from, bool integers,
             std::span<const int64_t> symbols, const Options& options);

inline void near_kink(const Options& options, double distance) {
  if (options.nearest_kink && distance < *options.nearest_kink) *options.nearest_kink = distance;
}

/// `value` rounded once to the storage type, as a store does.
double round_to(double value, DType type);

/// Distance of neighbouring numbers of a storage type at x.
double ulp_of(double x, DType type);

}  // namespace coda::reference

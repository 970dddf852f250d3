// SPDX-License-Identifier: Apache-2.0
// What the sizes of a call must divide: widths n/2, pairs and groups of columns.
#pragma once

#include <string>
#include <vector>

#include "call/call.h"

namespace coda {

/// One place where a program states a size: of a group or repeat (unit = size), of a half (unit = 2
/// size).
struct SizeUse {
  const ir::Size* width;  // of the value whose columns are grouped
  const ir::Size* size;   // as written; must be above 0
  int64_t factor;         // the unit is factor * size columns; 0: no unit (a repeating table)
  const ir::Size* half;   // of a swap: twice it must fit into `size`
  const ir::Dims* dims;   // it stands in a type or in what a reduction keeps ...
  const ir::Node* node;   // ... or in this operation

  /// "split(..., dh/2)", "mean[m, n:dh]", "[n % dh]".
  std::string text(const ir::Program& program) const;
};

/// Columns 0..u-1, u..2u-1, ... of a value of width `numerator / denominator` * N belong together.
struct Unit {
  int64_t numerator, denominator;
  int64_t columns;
  SizeUse use;
};

/// `width` as a factor of N. Throws Error{internal} for a width that is none.
std::pair<int64_t, int64_t> factor_of_n(const ir::Size& width);

/// Checks every size of the program that does not depend on N and M: above zero and exact.
void check_parameters(const Instance& instance);

/// Checks every size of the program for the N and M in `symbols` and returns the units, each
/// dividing N.
std::vector<Unit> check_units(const ir::Program& program, const std::vector<int64_t>& symbols);

/// Refuses a seam between segments, `column` columns of an N-wide value from the left (times
/// numerator / denominator for other widths), that cuts one of the units.
void check_seam(const std::vector<Unit>& units, int64_t column, std::pair<int64_t, int64_t> width,
                const struct Where& where);

}  // namespace coda

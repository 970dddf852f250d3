// SPDX-License-Identifier: Apache-2.0
// Sizes of dims, and the bookkeeping of broadcasts: how often an element of an operand occurs in a
// result.
#pragma once

#include "ir/builder.h"

namespace coda::autodiff {

/// Number of columns of a value: 1, w, w/G or P.
inline ir::Size column_count(const ir::Columns& columns) {
  switch (columns.kind) {
    case ir::Columns::Kind::none:
      return ir::constant_size(1);
    case ir::Columns::Kind::all:
      return columns.width;
    case ir::Columns::Kind::group:
      return columns.width / columns.size;
    case ir::Columns::Kind::repeat:
      return columns.size;
  }
  return {};
}

/// Whether a value over `inner` has one element for each element (or group of elements) of `outer`.
inline bool within(const ir::Dims& inner, const ir::Dims& outer) {
  const ir::Columns &a = inner.columns, &b = outer.columns;
  const bool columns = a.kind == ir::Columns::Kind::none || a == b ||
                       (b.kind == ir::Columns::Kind::all && a.width == b.width);
  return (!inner.rows || outer.rows) && columns;
}

/// A size as a value: an exact integer where it is a product, a quotient otherwise.
inline Value size_value(ir::Builder& builder, const ir::Size& size) {
  Value top = builder.integer(size.numerator), bottom = builder.integer(size.denominator);
  bool first_top = size.numerator == 1, first_bottom = true, divided = size.denominator != 1;
  for (const auto& [symbol, exponent] : size.powers)
    for (int i = 0; i < (exponent < 0 ? -exponent : exponent); ++i) {
      const Value factor = builder.node(ir::SizeParameter{symbol});
      if (exponent > 0) {
        top = first_top ? factor : top * factor;
        first_top = false;
      } else {
        bottom = first_bottom && size.denominator == 1 ? factor : bottom * factor;
        first_bottom = false, divided = true;
      }
    }
  return divided ? top / bottom : top;
}

}  // namespace coda::autodiff

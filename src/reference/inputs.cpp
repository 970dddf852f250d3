// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include "base/convert.h"
#include "reference/bounded.h"
#include "reference/internal.h"

namespace coda::reference {
namespace {

/// Element (row, column) of a segment's view.
const std::byte* address(const View& view, int64_t row, int64_t column) {
  return view.data + (row * view.row_stride + column * view.column_stride) *
                         static_cast<int64_t>(size_of(view.dtype));
}

Dense load(const Binding& binding) {
  const DType type = binding.segments.empty() ? DType::f32 : binding.segments[0].view.dtype;
  Dense result = make({binding.rows, binding.columns}, !is_float(type));
  for (const Segment& segment : binding.segments) {
    const bool by_rows = binding.axis == Axis::rows;
    const int64_t row0 = by_rows ? segment.begin : 0, row1 = by_rows ? segment.end : binding.rows;
    const int64_t column0 = by_rows ? 0 : segment.begin;
    const int64_t column1 = by_rows ? binding.columns : segment.end;
    for (int64_t r = row0; r < row1; ++r)
      for (int64_t c = column0; c < column1; ++c) {
        const std::byte* from = address(segment.view, r - row0, c - column0);
        const size_t at = static_cast<size_t>(r * binding.columns + c);
        if (is_float(type))
          result.value[at] = load_element(from, type);
        else
          result.integer[at] = load_integer(from, type);
      }
  }
  return result;
}

Dense scalar(const ir::Input& input, double number) {
  Dense result;
  if (!input.type.generic && !is_float(input.type.dtype))
    result.integer = {static_cast<int64_t>(number)};
  else
    result.value = {static_cast<double>(static_cast<float>(number))};
  return result;
}

}  // namespace

Dense accumulate(std::span<const Product> products, int64_t m, int64_t n) {
  Dense result = make({m, n}, false);
  int64_t depth = 0;
  for (const Product& product : products) depth += product.k;
  for (const Product& product : products) {
    if (product.a.segments.empty()) continue;
    const DType type = product.a.segments[0].view.dtype;
    const bool truncated = depth > kLongSum && size_of(type) == 2;
    (truncated ? add_long_product : add_product)(load(product.a).value, load(product.b).value,
                                                 product.k, product_unit(type), result);
  }
  result.error.resize(result.value.size());
  for (size_t i = 0; i < result.value.size(); ++i) {
    const Bounded y = in_range(result.value[i], result.error[i]);
    result.value[i] = y.value, result.error[i] = y.error;
  }
  return result;
}

std::vector<Dense> inputs_of(const ir::Program& program, const BoundCall& call) {
  std::vector<Dense> result;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    switch (program.inputs[i].kind) {
      case ir::Input::Kind::accumulator:
        result.push_back(accumulate(call.products[i], call.m, call.n));
        break;
      case ir::Input::Kind::tensor:
        result.push_back(load(call.inputs[i]));
        break;
      case ir::Input::Kind::scalar:
        result.push_back(scalar(program.inputs[i], call.scalars[i]));
        break;
      case ir::Input::Kind::weight:
        throw Error(ErrorKind::internal, "reference", "a program", "a graph");
    }
  }
  return result;
}

}  // namespace coda::reference

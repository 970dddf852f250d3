// SPDX-License-Identifier: Apache-2.0
//
// Two regions meet where offset + sum(u_i * stride_i) lies in (-block_b, block_a) for whole numbers
// u_i of known ranges. The search goes from the widest stride to the narrowest and keeps only those
// u_i from which the rest can still reach the window; a branch ends early where the offset misses
// the window modulo the common divisor of the strides that remain.
#include "call/overlap.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace coda {
namespace {

__extension__ typedef __int128 Wide;

struct Variable {
  Wide stride, low, high;  // u ranges over low..high
};

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b < 0); }
Wide ceiling_divide(Wide a, Wide b) { return a / b + (a % b > 0); }

struct Search {
  std::vector<Variable> variables;  // the widest stride first
  Wide window_low, window_high;     // inclusive
  int budget = 4096;

  void add(Wide stride, Wide low, Wide high) {
    auto at = variables.begin();
    while (at != variables.end() && at->stride > stride) ++at;
    if (at != variables.end() && at->stride == stride)
      at->low += low, at->high += high;
    else
      variables.insert(at, {stride, low, high});
  }

  bool reaches(size_t from, Wide offset) {
    Wide low = 0, high = 0, divisor = 0;
    for (size_t i = from; i < variables.size(); ++i) {
      low += variables[i].stride * variables[i].low;
      high += variables[i].stride * variables[i].high;
      divisor = std::gcd(static_cast<int64_t>(divisor), static_cast<int64_t>(variables[i].stride));
    }
    if (offset + high < window_low || offset + low > window_high) return false;
    if (from == variables.size()) return true;
    const Wide nearest =
        ceiling_divide(window_low - offset, divisor);  // least multiple not below the window
    if (offset + nearest * divisor > window_high) return false;
    if (--budget < 0) return true;
    const Variable& v = variables[from];
    low -= v.stride * v.low, high -= v.stride * v.high;
    const Wide first = std::max(v.low, ceiling_divide(window_low - offset - high, v.stride));
    const Wide last = std::min(v.high, floor_divide(window_high - offset - low, v.stride));
    for (Wide u = first; u <= last; ++u)
      if (reaches(from + 1, offset + u * v.stride)) return true;
    return false;
  }
};

Wide end_of(const Region& region) {
  Wide end = static_cast<Wide>(region.begin) + region.block;
  for (int i = 0; i < region.dimensions; ++i)
    end += static_cast<Wide>(region.dimension[i].stride) * (region.dimension[i].count - 1);
  return end;
}

}  // namespace

Region region_of(const View& view, int64_t rows, int64_t columns) {
  Region region;
  if (rows == 0 || columns == 0 || view.data == nullptr) return region;
  const int64_t element = static_cast<int64_t>(size_of(view.dtype));
  region.begin = reinterpret_cast<uintptr_t>(view.data);
  region.block = element;
  std::pair<int64_t, int64_t> dims[] = {{view.column_stride, columns}, {view.row_stride, rows}};
  if (dims[1].first < dims[0].first) std::swap(dims[0], dims[1]);
  for (const auto& [stride, extent] : dims) {
    if (extent == 1 || stride == 0) continue;
    const int64_t bytes = stride * element;
    if (region.dimensions == 0 && bytes <= region.block)
      region.block += bytes * (extent - 1);
    else
      region.dimension[region.dimensions++] = {bytes, extent};
  }
  return region;
}

bool overlap(const Region& a, const Region& b) {
  if (a.block == 0 || b.block == 0) return false;
  if (end_of(a) <= b.begin || end_of(b) <= a.begin) return false;
  Search search;
  search.window_low = -static_cast<Wide>(b.block) + 1;
  search.window_high = static_cast<Wide>(a.block) - 1;
  for (int i = 0; i < a.dimensions; ++i)
    search.add(a.dimension[i].stride, -static_cast<Wide>(a.dimension[i].count - 1), 0);
  for (int i = 0; i < b.dimensions; ++i)
    search.add(b.dimension[i].stride, 0, b.dimension[i].count - 1);
  return search.reaches(0, static_cast<Wide>(b.begin) - static_cast<Wide>(a.begin));
}

bool overlaps_itself(const View& view, int64_t rows, int64_t columns) {
  if (rows == 0 || columns == 0) return false;
  const int64_t r = view.row_stride, c = view.column_stride;
  if (rows > 1 && r == 0) return true;
  if (columns > 1 && c == 0) return true;
  if (rows == 1 || columns == 1) return false;
  // (i, j) and (i + c/g, j - r/g) are the closest two elements of one address.
  const int64_t divisor = std::gcd(r, c);
  return c / divisor < rows && r / divisor < columns;
}

}  // namespace coda

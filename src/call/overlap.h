// SPDX-License-Identifier: Apache-2.0
// Whether strided views share memory. Exact for the layouts that occur (slices of one packed
// matrix, rows or columns taken in turn); where an exact answer would take a long search, views
// whose address ranges meet count as overlapping.
#pragma once

#include "call/call.h"

namespace coda {

/// The bytes of a view: a block of neighbouring bytes, repeated along at most two dimensions.
struct Region {
  struct Dimension {
    int64_t stride, count;  // bytes; count > 1
  };
  uintptr_t begin = 0;
  int64_t block = 0;  // 0: no memory at all
  int dimensions = 0;
  Dimension dimension[2];
};

/// The region of rows x columns elements. The end of the view must lie below 2^63 bytes from its
/// start.
Region region_of(const View& view, int64_t rows, int64_t columns);

bool overlap(const Region& a, const Region& b);

/// Whether two elements of the view share an address.
bool overlaps_itself(const View& view, int64_t rows, int64_t columns);

}  // namespace coda

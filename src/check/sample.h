// SPDX-License-Identifier: Apache-2.0
// Calls too large to be evaluated whole in float64: parts of them, each a small call of its own.
//
// A part is some rows and some columns of N of every tensor, cut out by its dims, with the whole of
// K. Indices count from where the part lies, and M and N are those of the whole call, so that every
// value is what it is there, but for those that reductions make of rows or columns outside: these
// take parts that have all of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "call/call.h"
#include "reference/reference.h"

namespace coda::check {

/// From (and not including) to.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

struct Part {
  Range rows, columns;  // of M and N
};

/// What must be seen whole for a value to be known.
struct Reach {
  bool rows = false, columns = false;
};

/// By output.
std::vector<Reach> reaches_of(const ir::Program& program);

struct SampleCounts {
  int chunks = 64;                        // of 16 rows and 64 columns
  int rows = 2, columns = 2;              // of 16 whole ones
  int64_t affordable = int64_t{1} << 28;  // multiplications of a whole call
};

struct Samples {
  std::vector<Part> parts;
  std::vector<std::string> uncovered;  // outputs that no part can tell anything about
};

/// Parts that cover every output whose parts can be known; the corners, and others at random.
/// `depth` is the sum of K.
Samples choose_samples(const ir::Program& program, std::span<const int64_t> symbols, int64_t depth,
                       const SampleCounts& counts, uint64_t seed);

/// Copies `height` lines of `width` bytes that lie `pitch` bytes apart; to[] has no gaps.
using Fetch = std::function<void(std::byte* to, const std::byte* from, int64_t width, int64_t pitch,
                                 int64_t height)>;

/// Memory of a matrix of one's own.
struct Cut {
  Binding binding;
  std::vector<std::vector<std::byte>> memory;  // of its segments
};
Cut cut(const Binding& from, Range rows, Range columns, const Fetch& fetch);

/// One output in one part; the element named is one of the whole output.
struct Finding {
  size_t part = 0, output = 0;
  reference::Comparison comparison;
};

/// Evaluates each part and compares all outputs that it can tell. `fetch` is called from one thread
/// at a time.
std::vector<Finding> check_parts(const Instance& instance, const BoundCall& call,
                                 std::span<const Part> parts, const Fetch& fetch, int threads);

}  // namespace coda::check

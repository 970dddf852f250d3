// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a plan lie for a number of tokens: one arena, reused as buffers die.
#pragma once

#include <coda/dtype.h>

#include <string>
#include <vector>

#include "rewrite/plan.h"

namespace coda::execute {

struct Placement {
  size_t offset = 0, bytes = 0;
  size_t begin = 0, end = 0;  // steps [begin, end) during which it is alive
};

struct Layout {
  int64_t tokens = 0;
  size_t bytes = 0;                   // of the arena
  std::vector<Placement> placements;  // by buffer; inputs, outputs and unused ones have no bytes
};

/// Rows that a buffer has for `tokens` tokens.
int64_t rows_of(const rewrite::Plan& plan, const rewrite::Buffer& buffer, int64_t tokens);

/// Bytes of a buffer where T is `type`. Throws Error{shape} where 64 bits do not hold them.
size_t bytes_of(const rewrite::Plan& plan, const rewrite::Buffer& buffer, int64_t tokens,
                DType type);

/// Places every buffer that is neither input nor output: larger ones first, each at the lowest
/// offset that no buffer alive at the same time has.
Layout lay_out(const rewrite::Plan& plan, int64_t tokens, DType type);

/// Bytes at the step where most are alive, by buffer, largest first: what a report of peak memory
/// shows.
struct Peak {
  size_t step = 0, bytes = 0;
  std::vector<std::pair<std::string, size_t>> buffers;
};
Peak peak(const rewrite::Plan& plan, const Layout& layout);

}  // namespace coda::execute

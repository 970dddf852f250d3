// SPDX-License-Identifier: Apache-2.0
// The values that numeric options of the command line may have: refused by name before any work.
#pragma once

#include <coda/error.h>
#include <fmt/format.h>

#include <string>

namespace coda::tool {

/// Throws Error{argument} for a value outside [low, high] and for NaN. Integers too large for 64
/// bits arrive as the largest, so `high` is below that.
template <class T>
void require_range(const char* option, T value, T low, T high) {
  if (value >= low && value <= high) return;
  throw Error(ErrorKind::argument, option, fmt::format("a number from {} to {}", low, high),
              fmt::format("{}", value), "correct the value");
}

}  // namespace coda::tool

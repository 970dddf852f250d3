// SPDX-License-Identifier: Apache-2.0
// The order in which the windows of a text are drawn: every one once per epoch, in an order of the
// seed's and epoch's own, and of no memory.
//
// The order is a permutation that is computed at one index at a time. A Feistel network permutes
// the numbers below 4^k, the least such that holds all windows; what falls beyond them is permuted
// again until it does not (cycle walking), fewer than four times on average, since 4^k is less than
// four times their number. So a position in the data is one integer, and to resume is to go on
// from it.
#pragma once

#include <cstdint>

namespace coda::train {

/// Where `index` of [0, count) stands in the order of `key`. One-to-one on [0, count); count is at
/// least 1.
uint64_t permuted(uint64_t index, uint64_t count, uint64_t key);

}  // namespace coda::train

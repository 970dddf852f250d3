// SPDX-License-Identifier: Apache-2.0
#include "train/data_order.h"

#include <bit>

namespace coda::train {
namespace {

constexpr int kRounds = 6;

/// The finaliser of SplitMix64: every bit of x reaches every bit of the result.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// One-to-one on the numbers of 2 `half` bits.
uint64_t feistel(uint64_t x, int half, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t left = x >> half, right = x & mask;
  for (int round = 0; round < kRounds; ++round) {
    key += 0x9e3779b97f4a7c15u;
    const uint64_t next = left ^ (mixed(mixed(key) + right) & mask);
    left = right;
    right = next;
  }
  return left << half | right;
}

}  // namespace

uint64_t permuted(uint64_t index, uint64_t count, uint64_t key) {
  if (count == 1) return 0;
  const int half = (std::bit_width(count - 1) + 1) / 2;
  do {
    index = feistel(index, half, key);
  } while (index >= count);
  return index;
}

}  // namespace coda::train

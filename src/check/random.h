// SPDX-License-Identifier: Apache-2.0
// A small generator of random numbers whose streams are the same everywhere (SplitMix64), and
// streams by name: what one tensor is drawn from does not depend on the others.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace coda::check {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  Random(uint64_t seed, std::string_view name) : state_(seed) {
    for (char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// From [0, count); 0 where count is not positive.
  int64_t below(int64_t count) {
    return count <= 0 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(count));
  }
  bool chance(double probability) { return uniform() < probability; }
  template <class List>
  const auto& pick(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(std::size(list))))];
  }

  /// From [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// N(0, 1), two at a time (Box and Muller).
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace coda::check

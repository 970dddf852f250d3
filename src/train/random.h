// SPDX-License-Identifier: Apache-2.0
// Random numbers by counter (Philox 4x32-10, Salmon and others 2011): number i of a stream is a
// function of seed, stream and i, so the whole state is three integers, saved as text and restored
// bit for bit. Streams are told apart by names: what one parameter is drawn from does not depend on
// the others, nor on their order.
//
// Normal numbers are made by coda's own arithmetic (Box and Muller on its float32 functions), so
// they are the same bits whatever the standard library and instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace coda::train {

class Random {
 public:
  explicit Random(uint64_t seed, std::string_view stream = {});

  /// From what state() gave; refuses any other text.
  static Random restore(std::string_view state);
  std::string state() const;

  uint64_t next();

  /// From [0, 1), a multiple of 2^-53.
  double uniform();

  /// Fills `values` from N(mean, std^2). Refuses a mean or std that is not finite and a std below
  /// 0.
  void normal(std::span<float> values, float mean, float std);

 private:
  using Block = std::array<uint32_t, 4>;
  Block block();

  uint64_t seed_;
  uint64_t stream_;
  uint64_t counter_ = 0;  // of blocks of 128 bits; every call takes whole ones
};

}  // namespace coda::train

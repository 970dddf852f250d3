// SPDX-License-Identifier: Apache-2.0
#include "train/random.h"

#include <coda/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "cpu/math.h"

namespace coda::train {
namespace {

constexpr std::string_view kName = "philox4x32-10";

/// FNV-1a, 64 bits.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

/// From (0, 1]: the logarithm is finite.
float fraction(uint32_t x) { return (static_cast<float>(x) + 0.5f) * 0x1p-32f; }

void require_finite(const char* name, float value, bool allowed, const char* expected) {
  if (!std::isfinite(value) || !allowed)
    throw Error(ErrorKind::argument, std::string("normal numbers: ") + name, expected,
                std::to_string(value), "correct the value");
}

}  // namespace

Random::Random(uint64_t seed, std::string_view stream)
    : seed_(seed), stream_(stream.empty() ? 0 : hash_of(stream)) {}

std::string Random::state() const {
  return std::string(kName) + " " + std::to_string(seed_) + " " + std::to_string(stream_) + " " +
         std::to_string(counter_);
}

Random Random::restore(std::string_view state) {
  Random result(0);
  const char* at = state.data();
  const char* const end = at + state.size();
  bool valid = state.starts_with(kName);
  if (valid) at += kName.size();
  for (uint64_t* part : {&result.seed_, &result.stream_, &result.counter_}) {
    valid = valid && at != end && *at == ' ';
    if (!valid) break;
    const auto [after, error] = std::from_chars(at + 1, end, *part);
    valid = error == std::errc();
    at = after;
  }
  // Only what state() writes: no leading zeros, nothing behind the last number.
  if (!valid || at != end || result.state() != state)
    throw Error(ErrorKind::io, "state of random numbers",
                std::string(kName) + " and three integers below 2^64",
                "'" + std::string(state.substr(0, 80)) + "'", "use the state that was saved");
  return result;
}

Random::Block Random::block() {
  Block x = {low(counter_), high(counter_), low(stream_), high(stream_)};
  ++counter_;
  uint32_t key0 = low(seed_), key1 = high(seed_);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xd2511f53u} * x[0];
    const uint64_t product1 = uint64_t{0xcd9e8d57u} * x[2];
    x = {high(product1) ^ x[1] ^ key0, low(product1), high(product0) ^ x[3] ^ key1, low(product0)};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return x;
}

uint64_t Random::next() {
  const Block x = block();
  return uint64_t{x[1]} << 32 | x[0];
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

void Random::normal(std::span<float> values, float mean, float std) {
  require_finite("mean", mean, true, "a finite number");
  require_finite("std", std, std >= 0, "a finite number of at least 0");
  constexpr size_t pairs = 128;
  std::array<float, pairs> radius, angle;
  while (!values.empty()) {
    for (size_t i = 0; i < pairs; i += 2) {
      const Block x = block();
      radius[i] = fraction(x[0]), angle[i] = fraction(x[1]);
      radius[i + 1] = fraction(x[2]), angle[i + 1] = fraction(x[3]);
    }
    std::array<float, 2 * pairs> drawn;
    for (size_t i = 0; i < pairs; ++i) {
      const float r = math::sqrt(-2.0f * math::log(radius[i]));
      const float turn = 2 * std::numbers::pi_v<float> * angle[i];
      drawn[i] = mean + std * (r * math::cos(turn));
      drawn[pairs + i] = mean + std * (r * math::sin(turn));
    }
    const size_t count = std::min(values.size(), drawn.size());
    std::copy_n(drawn.begin(), count, values.begin());
    values = values.subspan(count);
  }
}

}  // namespace coda::train

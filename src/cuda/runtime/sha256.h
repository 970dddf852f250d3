// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4): names and checksums of the files in the cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coda::cuda {

using Digest = std::array<unsigned char, 32>;

class Sha256 {
 public:
  void add(std::string_view bytes);
  /// Adds the length of `bytes` first, so that neighbouring fields cannot trade characters.
  void add_field(std::string_view bytes);
  /// The digest of all that was added; the object is spent.
  Digest finish();

 private:
  void block(const unsigned char* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_ = {};
  uint64_t length_ = 0;  // bytes added
};

Digest sha256(std::string_view bytes);

/// 64 lower-case hexadecimal digits.
std::string hex(const Digest& digest);

}  // namespace coda::cuda

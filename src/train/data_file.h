// SPDX-License-Identifier: Apache-2.0
// A file of tokens, mapped and read-only: the size of a text is bounded by the disk, not by memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/mapped_file.h"

namespace coda::train {

enum class TokenKind : unsigned char {
  bytes,  // one token per byte of any file
  u16,    // little endian
  u32,    // little endian
};

/// "bytes", "u16" or "u32"; refuses any other name.
TokenKind token_kind(const std::string& name);

/// Files of at most 64 MiB are copied, so that what another process does to them later is of no
/// concern; a larger file that becomes shorter while it is mapped ends the program.
class TokenFile {
 public:
  /// Refuses what is no regular file, cannot be read or is empty, a size that is no whole number of
  /// tokens, and any token at or above `vocabulary`, which takes one pass over the file where the
  /// kind has such tokens.
  TokenFile(const std::string& path, TokenKind kind, int64_t vocabulary);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t tokens() const { return tokens_; }

  /// Tokens [first, first + count), which must lie in the file.
  void read(int64_t first, int64_t count, int64_t* ids) const;

 private:
  void check_vocabulary(int64_t vocabulary) const;

  std::string path_;
  TokenKind kind_;
  std::vector<std::byte> copy_;
  std::optional<MappedFile> file_;  // where it is not copied
  std::span<const std::byte> bytes_;
  int64_t tokens_ = 0;
};

}  // namespace coda::train

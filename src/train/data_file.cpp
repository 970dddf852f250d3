// SPDX-License-Identifier: Apache-2.0
#include "train/data_file.h"

#include <coda/error.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace coda::train {
namespace {

constexpr size_t kCopied = size_t{64} << 20;
constexpr std::array<std::string_view, 3> kKindNames = {"bytes", "u16", "u32"};

int64_t size_of(TokenKind kind) { return int64_t{1} << static_cast<int>(kind); }

/// Least significant byte first, whatever the machine.
int64_t token_at(const unsigned char* bytes, TokenKind kind) {
  switch (kind) {
    case TokenKind::bytes:
      return bytes[0];
    case TokenKind::u16:
      return bytes[0] | bytes[1] << 8;
    case TokenKind::u32:
      break;
  }
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | int64_t{bytes[3]} << 24;
}

[[noreturn]] void refuse(const std::string& where, std::string_view expected, std::string_view got,
                         std::string_view fix) {
  throw Error(ErrorKind::io, where, expected, got, fix);
}

}  // namespace

TokenKind token_kind(const std::string& name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end())
    throw Error(ErrorKind::argument, "kind of tokens", "bytes, u16 or u32", "'" + name + "'",
                "name what the file holds: bytes of text, or tokens of 16 or 32 bits");
  return static_cast<TokenKind>(found - kKindNames.begin());
}

TokenFile::TokenFile(const std::string& path, TokenKind kind, int64_t vocabulary)
    : path_(path), kind_(kind), file_(std::in_place, path) {
  if (vocabulary < 1)
    throw Error(ErrorKind::argument, path + ": vocabulary", "at least one token",
                std::to_string(vocabulary), "give the vocabulary of the model");
  bytes_ = file_->bytes();
  const size_t bytes = bytes_.size();
  if (bytes == 0) refuse(path, "text or tokens", "an empty file", "check the path");
  const auto size = static_cast<size_t>(size_of(kind));
  if (bytes % size != 0)
    refuse(path, "tokens of " + std::to_string(size) + " bytes",
           std::to_string(bytes) + " bytes, no whole number of them",
           "check the kind of tokens, or copy the file again");
  tokens_ = static_cast<int64_t>(bytes / size);
  if (bytes <= kCopied) {
    copy_.assign(bytes_.begin(), bytes_.end());
    bytes_ = copy_;
    file_.reset();
  }
  check_vocabulary(vocabulary);
}

void TokenFile::check_vocabulary(int64_t vocabulary) const {
  if (vocabulary >= int64_t{1} << (8 * size_of(kind_))) return;
  constexpr int64_t chunk = 1 << 14;
  std::array<int64_t, chunk> ids;
  for (int64_t first = 0; first < tokens_; first += chunk) {
    const int64_t count = std::min(chunk, tokens_ - first);
    read(first, count, ids.data());
    const auto end = ids.begin() + count;
    if (*std::max_element(ids.begin(), end) < vocabulary) continue;
    const auto bad = std::find_if(ids.begin(), end, [&](int64_t id) { return id >= vocabulary; });
    refuse(path_ + ": token " + std::to_string(first + (bad - ids.begin())),
           "less than the vocabulary, " + std::to_string(vocabulary), std::to_string(*bad),
           "use the tokenizer and the kind of tokens that belong to the model");
  }
}

void TokenFile::read(int64_t first, int64_t count, int64_t* ids) const {
  const auto* from = reinterpret_cast<const unsigned char*>(bytes_.data()) + first * size_of(kind_);
  const auto widen = [&](TokenKind kind) {
    for (int64_t i = 0; i < count; ++i) ids[i] = token_at(from + i * size_of(kind), kind);
  };
  // One loop per kind, so that the choice is outside of it.
  switch (kind_) {
    case TokenKind::bytes:
      return widen(TokenKind::bytes);
    case TokenKind::u16:
      return widen(TokenKind::u16);
    case TokenKind::u32:
      return widen(TokenKind::u32);
  }
}

}  // namespace coda::train

// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/entry.h"

namespace coda::cuda {
namespace {

constexpr std::string_view kMagic = {"CODA\x1a\r\n\x01", 8};  // the last byte is the version

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

void append_string(std::string& to, std::string_view text) {
  for (int shift = 0; shift < 64; shift += 8)
    to += static_cast<char>(static_cast<uint64_t>(text.size()) >> shift);
  to += text;
}

std::optional<std::string_view> take_string(std::string_view& bytes) {
  if (bytes.size() < 8) return std::nullopt;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > bytes.size() - 8) return std::nullopt;
  const std::string_view text = bytes.substr(8, length);
  bytes.remove_prefix(8 + length);
  return text;
}

std::string encode_entry(const Digest& key, std::string_view payload) {
  std::string bytes(kMagic);
  bytes += as_text(key);
  bytes += as_text(sha256(payload));
  append_string(bytes, payload);
  return bytes;
}

std::optional<std::string> decode_entry(const Digest& key, std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  if (!bytes.starts_with(as_text(key))) return std::nullopt;
  bytes.remove_prefix(key.size());
  if (bytes.size() < sizeof(Digest)) return std::nullopt;
  const std::string_view checksum = bytes.substr(0, sizeof(Digest));
  bytes.remove_prefix(sizeof(Digest));
  const std::optional<std::string_view> payload = take_string(bytes);
  if (!payload || !bytes.empty() || as_text(sha256(*payload)) != checksum) return std::nullopt;
  return std::string(*payload);
}

}  // namespace coda::cuda

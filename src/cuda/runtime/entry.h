// SPDX-License-Identifier: Apache-2.0
// A file of the cache, and what a compile worker hands back: a payload that proves itself.
// Layout: magic (8 bytes), key (32), SHA-256 of the payload (32), payload length (8,
// little-endian), payload. Every byte counts: a changed, missing or added one makes the file
// invalid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cuda/runtime/sha256.h"

namespace coda::cuda {

std::string encode_entry(const Digest& key, std::string_view payload);

/// The payload of `bytes`, or nothing where they are no entry for `key`.
std::optional<std::string> decode_entry(const Digest& key, std::string_view bytes);

/// A length in front, so that several strings can follow each other.
void append_string(std::string& to, std::string_view text);
/// Takes a string from the front of `bytes`; nothing where they are too short.
std::optional<std::string_view> take_string(std::string_view& bytes);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// What reader and writer of safetensors share: the names of types, and how many bytes a shape
// takes.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace coda::train {

struct StoredType {
  std::string_view name;
  DType type;
};

inline constexpr StoredType kStoredTypes[] = {
    {"F32", DType::f32}, {"BF16", DType::bf16}, {"F16", DType::f16},
    {"I64", DType::i64}, {"I32", DType::i32},   {"U8", DType::u8},
};

/// Longer headers are refused, as by the format's own reader.
inline constexpr uint64_t kLongestHeader = 100'000'000;

inline constexpr const char* kMetadataKey = "__metadata__";

/// Nothing where the product does not fit 63 bits or a size is negative.
inline std::optional<int64_t> bytes_of(std::span<const int64_t> shape, DType type) {
  int64_t bytes = static_cast<int64_t>(size_of(type));
  bool overflow = false, empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (empty) return 0;
  if (overflow) return std::nullopt;
  return bytes;
}

inline std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace coda::train

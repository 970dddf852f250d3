// SPDX-License-Identifier: Apache-2.0
// 64-bit arithmetic on sizes that refuses to wrap. Sizes, strides and byte counts go through here,
// so that no product of them is silently wrong.
#pragma once

#include <coda/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace coda {

inline int64_t checked_multiply(int64_t a, int64_t b, std::string_view where) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    throw Error(ErrorKind::shape, where, "a size below 2^63",
                std::to_string(a) + " * " + std::to_string(b), "use smaller sizes or strides");
  return result;
}

inline int64_t checked_add(int64_t a, int64_t b, std::string_view where) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result))
    throw Error(ErrorKind::shape, where, "a size below 2^63",
                std::to_string(a) + " + " + std::to_string(b), "use smaller sizes or strides");
  return result;
}

inline int64_t ceil_divide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace coda

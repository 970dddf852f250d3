// SPDX-License-Identifier: Apache-2.0
// The matrix product alone, as the vendor's library runs it: what a fused program is measured
// against.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <functional>

namespace coda::tool {

/// One call of oneDNN's matmul: c [m, n] = a [m, k] b [n, k] transposed, all row-major and of type
/// `type`. Empty in a build without oneDNN and for types that it does not take on
/// this processor.
std::function<void()> bare_product(int64_t m, int64_t n, int64_t k, DType type, const void* a,
                                   const void* b, void* c, int threads);

}  // namespace coda::tool

// SPDX-License-Identifier: Apache-2.0
// Independent pieces of work on some threads.
#pragma once

#include <cstddef>
#include <functional>

namespace coda::check {

/// Calls work(i) for each i below `count`, on `threads` threads (0: one per core). Throws what one
/// of them threw.
void for_each(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace coda::check

// SPDX-License-Identifier: Apache-2.0
// Stands in for the cache of compiled kernels in builds without CUDA, which compile none.
#include "cuda/runtime/cache.h"

namespace coda::cuda {

CacheSettings cache_settings() { return {}; }

}  // namespace coda::cuda

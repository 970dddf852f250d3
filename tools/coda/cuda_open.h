// SPDX-License-Identifier: Apache-2.0
// What the commands of the CUDA backend share; no part of builds without it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda.h"
#include "cuda/backend/gpu.h"
#include "cuda/check/call.h"
#include "cuda/check/suite.h"

namespace coda::tool {

/// --config, or CODA_CONFIG, or nothing.
std::optional<cuda::ConfigWish> wish_of(const std::string& config);

/// Throws Error{device} where there is none.
std::shared_ptr<const cuda::Gpu> open_gpu();

/// A row for each instance, or without any those of the suite whose names have `only` in them.
std::vector<cuda::BenchRow> rows_of(const std::vector<Instance>& instances,
                                    const CudaBench& options);

/// A tenth of the time in each slot of three contenders and three rounds, at most 300 ms.
double slot_ms(const CudaBench& options);

/// Whether the GPU still works after an error.
bool usable(const cuda::Arena& arena);

}  // namespace coda::tool

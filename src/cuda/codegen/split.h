// SPDX-License-Identifier: Apache-2.0
// The text of products whose K is cut into ranges.
#pragma once

#include "cuda/codegen/fused.h"
#include "cuda/lower/split.h"

namespace coda::cuda {

/// The kernel that stores the ranges' tiles, called NAME, and NAME_sum, whose parameter is
/// device::SplitSum. Requires split_form().
Fused generate_split(const Instance& instance, const device::Config& config,
                     const std::string& name);

}  // namespace coda::cuda

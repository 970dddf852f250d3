// SPDX-License-Identifier: Apache-2.0
// Products whose K is cut into ranges that run side by side: each range stores float32 tiles of its
// own, and a second kernel sums them in the order of the ranges. For programs that store the
// product, or add it to a tile: the gradients of weights, whose outputs are small.
#pragma once

#include <optional>

#include "cuda/codegen/fused.h"

namespace coda::cuda {

struct SplitForm {
  int addend = -1;  // the input that the product is added to
};

/// The form of a program whose product may be split; nothing for other programs.
std::optional<SplitForm> split_form(const Instance& instance);

/// The one port of the kernel that stores the ranges' tiles.
device::Port split_port();

/// That kernel, called NAME, and NAME_sum, whose parameter is device::SplitSum. Requires
/// split_form().
Fused generate_split(const Instance& instance, const device::Config& config,
                     const std::string& name);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Products whose K is cut into ranges that run side by side: each range stores float32 tiles of its
// own, and a second kernel sums them in the order of the ranges. For programs that store the
// product, or add it to a tile: the gradients of weights, whose outputs are small.
#pragma once

#include <optional>

#include "call/call.h"
#include "cuda/plan/config.h"

namespace coda::cuda {

struct SplitForm {
  int addend = -1;  // the input that the product is added to
};

/// The form of a program whose product may be split; nothing for other programs.
std::optional<SplitForm> split_form(const Instance& instance);

/// The one port of the kernel that stores the ranges' tiles.
device::Port split_port();

/// The program that this kernel runs: it stores a product as float32.
Instance split_product(const Instance& instance);

}  // namespace coda::cuda

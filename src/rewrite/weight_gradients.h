// SPDX-License-Identifier: Apache-2.0
// Pass 6, cut: the steps that make gradients of weights and of embeddings' tables.
#pragma once

#include <utility>

#include "rewrite/places.h"

namespace coda::rewrite {

/// The steps, each with its place among regions: half behind the region that it waits for.
std::vector<std::pair<double, Step>> weight_gradients(const ir::Program& graph,
                                                      const Regions& regions, Places& places);

}  // namespace coda::rewrite

// SPDX-License-Identifier: Apache-2.0
// Pass 6, cut: the program of a region and its call.
//
// A region becomes an ordinary epilogue program: constant widths of the graph turn into N, N/2 and
// 2N of its product, and the program's own rules (tile-locality, complete values) are checked again
// as it is built.
#pragma once

#include "rewrite/places.h"

namespace coda::rewrite {

/// The step of region `index`, which has stores. What it loads is marked as stored by the regions
/// that make it, so regions become programs from the last to the first.
Step region_step(const ir::Program& graph, Regions& regions, Places& places, int index);

}  // namespace coda::rewrite

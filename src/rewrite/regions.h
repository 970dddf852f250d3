// SPDX-License-Identifier: Apache-2.0
// Where each value of a graph is computed: the result of cutting it.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "rewrite/passes.h"

namespace coda::rewrite {

/// How a value is there once its region ran.
enum class Stage : unsigned char {
  nowhere,   // in no region: an input, or arithmetic that each reader does for itself
  tile,      // computed on the tiles of its region
  complete,  // known after the last tile of its region
  stored,    // in memory as a whole: what an opaque op made
};

/// What becomes one step: the program on one product (or two of one operand, or none), or one
/// opaque op. Regions are in an order in which they can run.
struct Region {
  bool opaque = false;
  std::vector<ir::ValueId> products;  // accumulators
  std::vector<ir::ValueId> ops;       // of an opaque op: its nodes
  int64_t columns = 1;                // N
  std::set<ir::ValueId> stores;       // values that others read from memory
};

struct Regions {
  std::vector<int> home;     // of each node: its region, or -1
  std::vector<Stage> stage;  // of each node
  std::vector<Region> regions;
  size_t backward = 0;  // the first region of gradients
  std::vector<ir::ValueId> weight_gradients;
};

/// Cuts a graph into regions.
Regions find_regions(const Joint& joint, const Options& options);

/// Marks what `v` lies in as read: the regions that make it store it.
void mark(const ir::Program& graph, Regions& regions, ir::ValueId v);

}  // namespace coda::rewrite

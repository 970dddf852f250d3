// SPDX-License-Identifier: Apache-2.0
// Save or recompute: which forward values the backward program loads.
#pragma once

#include <set>

#include "ir/program.h"

namespace coda::autodiff {

/// Whether an output of `program` holds `id` in full: over its dims and not in fp8. Returns its
/// index or -1.
int stored_output(const ir::Program& program, ir::ValueId id);

/// Products of a graph that are made in chunks. Their operands are kept.
struct WideProducts {
  std::set<ir::ValueId> products;
  bool recomputed = false;  // rather than kept
};

/// The cheapest set of forward values to load from which every value of `needed` can be recomputed:
/// a minimum vertex cut, where an input or a stored output costs its width in bytes to load,
/// another value twice that (it is stored first), and finished reductions cannot be recomputed.
/// Arithmetic is free. Of equal bytes, a value before a nonlinear function is taken rather than the
/// one after it, which rounds to less. In a graph every value is at hand and costs its width,
/// weights nothing; products, attention and embeddings are not recomputed. A value of a graph that
/// takes more than two others of its width is loaded itself: the cut counts a load once for all who
/// need it, but they stand far apart, and what many layers have added to would be stored again.
std::set<ir::ValueId> choose_loads(const ir::Program& program, const std::set<ir::ValueId>& needed,
                                   const WideProducts& wide = {});

}  // namespace coda::autodiff

// SPDX-License-Identifier: Apache-2.0
// Passes that rebuild a program node by node with each distinct node once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace coda::ir {

/// Merges equal nodes and drops those no output needs. Values do not change by a bit, and inputs
/// stay: it runs on what users wrote, before a backend compiles it.
Program eliminate(const Program& program);

/// eliminate() with algebra: constants folded, neutral operands dropped, x + x, joined zeros,
/// factors pulled out of sums. Values may change in their last bits, so it runs on derived programs
/// alone, after differentiation (which writes one term per use and leaves tidying to this pass).
Program simplify(const Program& program);

/// `program` without the inputs that nothing reads.
Program drop_unused_inputs(const Program& program);

/// A builder that yields an existing node where an equal one was built before.
class Consing {
 public:
  explicit Consing(Builder& builder) : builder_(builder) {}
  Value node(const Node& node);

 private:
  Builder& builder_;
  std::map<std::string, ValueId> known_;
};

/// Ids of the nodes that outputs need, ascending.
std::vector<ValueId> live_nodes(const Program& program);

/// How often each node is used by live nodes and outputs.
std::vector<int> use_counts(const Program& program);

}  // namespace coda::ir

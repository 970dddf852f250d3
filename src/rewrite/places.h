// SPDX-License-Identifier: Apache-2.0
// Pass 6, cut: where the values of a graph lie: the buffers of its plan.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "rewrite/regions.h"

namespace coda::rewrite {

/// A weight gradient of the graph or an embedding's, and the buffer of the output that it is a
/// summand of.
struct GradientPart {
  ir::ValueId value;
  int buffer;
};

class Places {
 public:
  /// Makes the buffers of inputs, outputs and concatenations in `plan`; those of other values are
  /// made when they are asked for. All three live as long as the places. Throws Error where outputs
  /// or concatenations would need a value twice that no program computes.
  Places(const ir::Program& graph, const Regions& regions, Plan& plan);

  /// Where a value lies; more than one part: side by side along columns.
  std::vector<Ref> of(ir::ValueId v);
  Ref one(ir::ValueId v) { return of(v)[0]; }
  /// Where a program stores the value beside its first place.
  std::vector<Ref> twins(ir::ValueId v) const;
  Ref whole(int buffer) const { return {buffer, 0, plan_.buffers[buffer].columns}; }
  const Buffer& buffer(const Ref& ref) const { return plan_.buffers[ref.buffer]; }
  /// Memory for what nobody reads.
  Ref spare(int64_t columns, ir::ElementType type, bool per_token = true);

  /// What the gradients of weights are the sums of.
  const std::vector<GradientPart>& gradients() const { return gradients_; }

  /// Marks buffers that hold the end of a block, of values before `backward`: buffers of their own
  /// alone, since a part of another is not told apart from the rest of it.
  void note_block_ends(ir::ValueId backward);

 private:
  const ir::Node& node(ir::ValueId v) const { return graph_.nodes[v]; }
  const ir::ValueInfo& info(ir::ValueId v) const { return graph_.info[v]; }
  int add_buffer(Buffer buffer);
  void add_input(const ir::Input& input);
  void add_output(const ir::Output& output);
  void collect_gradients(ir::ValueId v, int buffer);
  void place_slices(ir::ValueId base, std::vector<std::pair<int64_t, int>>& parts);
  void place_concat(ir::ValueId v);
  ir::ElementType type_of(ir::ValueId v) const;
  Buffer buffer_for(ir::ValueId v) const;
  bool on_tile(ir::ValueId v) const;

  const ir::Program& graph_;
  const Regions& regions_;
  Plan& plan_;
  std::vector<int> inputs_;
  std::vector<std::vector<Ref>> where_;
  std::map<ir::ValueId, std::vector<std::pair<int64_t, int>>> slices_;
  std::map<ir::ValueId, std::vector<Ref>> twins_;
  std::vector<GradientPart> gradients_;
};

}  // namespace coda::rewrite

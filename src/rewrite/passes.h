// SPDX-License-Identifier: Apache-2.0
// The passes of rewriting, one file each, in the order in which rewrite.cpp runs them. Each takes a
// graph and gives a graph; the last ones give the plan.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/simplify.h"
#include "rewrite/plan.h"
#include "rewrite/rewrite.h"

namespace coda::rewrite {

/// A graph under reconstruction, node by node.
class Rebuild {
 public:
  explicit Rebuild(ir::Builder& builder) : builder_(builder), consing_(builder) {}
  ir::Builder& builder() { return builder_; }
  Value value(ir::ValueId id) { return {&builder_, id}; }
  const ir::Node& node(ir::ValueId id) const { return builder_.program().nodes[id]; }
  const ir::ValueInfo& info(ir::ValueId id) const { return builder_.program().info[id]; }
  /// The node, or an equal one that is there.
  Value emit(const ir::Node& node) { return consing_.node(node); }

 private:
  ir::Builder& builder_;
  ir::Consing consing_;
};

/// Gives the value to take for a node whose operands are already those of the new graph, or nothing
/// to take the node itself. `source` is its id in the old graph.
using Rule = std::function<std::optional<Value>(Rebuild&, const ir::Node&, ir::ValueId source)>;

/// `graph` with a rule applied to each node in order; equal nodes are merged, dead ones dropped.
ir::Program rebuild(const ir::Program& graph, const Rule& rule);

ir::Program expand(const ir::Program& graph);
ir::Program defer(const ir::Program& graph);
ir::Program join(const ir::Program& graph);

/// A graph whose nodes from `backward` on are gradients (or recomputed for them).
struct Joint {
  ir::Program graph;
  ir::ValueId backward = 0;
};
Joint differentiate(const ir::Program& graph, const Options& options);
Joint sum_products(Joint joint);

/// Whether a value of a graph is what GraphBuilder::end_block made: rounded to T, so that loading
/// it from memory gives the bits that its readers on a tile see.
bool ends_block(const ir::Program& graph, ir::ValueId id);

/// What the passes before the cut make of a graph: what the plan computes, operation by operation.
struct Rewritten {
  Joint joint;
  std::set<std::string> chunked;  // weights whose products are made in chunks
};
Rewritten rewrite_graph(const ir::Program& graph, const Options& options);

Plan cut(const Joint& joint, const Options& options);

/// Sums over tokens that steps read, beside storing them as outputs, are kept by the plan itself.
void keep_sums(Plan& plan);

/// Notes in the plan which inputs of the graph, as users wrote it, are ids and labels. Throws
/// Error{unsupported} for ids and labels that the graph computes and that may be out of range.
void find_ids(const ir::Program& graph, Plan& plan);

/// The products that are to be made in chunks, and the weights that they multiply with.
std::set<ir::ValueId> chunked_products(const ir::Program& graph, const Options& options);
std::set<std::string> chunked_weights(const ir::Program& graph, const Options& options);
void chunk(Plan& plan, const std::set<std::string>& weights, const Options& options);

/// Leaves in the steps of the loop over chunks the sums over tokens that they make, and returns the
/// steps that compute the rest from them once the loop is through. Throws Error{unsupported} where
/// a step of the loop reads such a sum, and for means and extrema over tokens.
std::vector<Step> split_loop_sums(Plan& plan, std::span<Step> loop);

/// Finds the steps that add to what an earlier step has written; splits those that would do both.
void find_summands(Plan& plan);

/// Forward values that are not kept are made again by copies of their steps.
void recompute(Plan& plan);

}  // namespace coda::rewrite

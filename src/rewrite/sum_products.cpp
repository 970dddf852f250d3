// SPDX-License-Identifier: Apache-2.0
// Pass 5, sum products: gradients are joined as products were.
//
// The gradients that several products send to one operand are one sum of products (gate and up; the
// gradient of q|k|v is one already). Weight gradients of one operand become one product: what they
// multiply it with is put side by side, by placing it so (`concat`), not by copying. Nodes are not
// merged with equal ones here: what differentiation computes again must not become what it avoids
// to keep.
#include <map>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::ValueId;
using ir::Whole;

class Sums {
 public:
  explicit Sums(const Joint& joint) : source_(joint), builder_(joint.graph.name) {
    builder_.make_graph();
    uses_ = ir::use_counts(joint.graph);
  }

  Joint run() {
    const ir::Program& graph = source_.graph;
    Joint result;
    map_.assign(graph.nodes.size(), -1);
    std::vector<ValueId> inputs;
    for (const ir::Input& input : graph.inputs) inputs.push_back(builder_.input(input).id());
    const std::vector<ValueId> live = ir::live_nodes(graph);
    group_weight_gradients(live);
    bool began = false;
    for (ValueId i : live) {
      if (!began && i >= source_.backward) {
        result.backward = static_cast<ValueId>(builder_.program().nodes.size());
        began = true;
      }
      if (const auto* input = std::get_if<ir::InputValue>(&graph.nodes[i])) {
        map_[i] = inputs[input->input];
        continue;
      }
      if (late_.count(i)) continue;
      map_[i] = emit(i);
      if (!graph.names[i].empty()) builder_.name({&builder_, map_[i]}, graph.names[i]);
    }
    if (!began) result.backward = static_cast<ValueId>(builder_.program().nodes.size());
    emit_weight_gradients();
    for (ir::Output output : graph.outputs) {
      output.value = map_[output.value];
      builder_.output(output);
    }
    result.graph = builder_.finish();
    return result;
  }

 private:
  const ir::Node& node(ValueId id) const { return builder_.program().nodes[id]; }

  ValueId emit(ValueId i) {
    const ir::Node made =
        ir::with_operands(source_.graph.nodes[i], [&](ValueId id) { return map_[id]; });
    const auto* n = std::get_if<ir::Elementwise>(&made);
    if (n && n->op == ir::Op::add && i >= source_.backward) {
      const auto& args = std::get<ir::Elementwise>(source_.graph.nodes[i]).args;
      for (int side = 0; side < 2; ++side)
        if (const auto merged = merge(i, args[side], args[1 - side])) return *merged;
    }
    return builder_.node(made).id();
  }

  /// x + P for a product P that nothing else reads, where x is another or a sum that has one.
  std::optional<ValueId> merge(ValueId i, ValueId x, ValueId p) {
    if (!product(p)) return std::nullopt;
    if (product(x)) return join(map_[x], map_[p]);
    if (uses_[x] != 1) return std::nullopt;
    if (const auto found = sums_.find(x); found != sums_.end())
      return sum_of(i, found->second.rest, join(found->second.product, map_[p]));
    const auto* sum = std::get_if<ir::Elementwise>(&source_.graph.nodes[x]);
    if (!sum || sum->op != ir::Op::add) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      const ValueId inner = sum->args[side];
      if (product(inner)) return sum_of(i, map_[sum->args[1 - side]], join(map_[inner], map_[p]));
    }
    return std::nullopt;
  }

  /// rest + product, remembered so that the next product joins this one.
  ValueId sum_of(ValueId i, ValueId rest, ValueId product) {
    sums_[i] = {rest, product};
    return builder_.node(ir::Elementwise{ir::Op::add, {rest, product, -1}}).id();
  }

  /// Whether `id` of the old graph is a product in the new one that nothing else reads.
  bool product(ValueId id) const {
    return uses_[id] == 1 && ir::whole<ir::InputGradient>(node(map_[id])) != nullptr;
  }

  ValueId join(ValueId a, ValueId b) {
    ir::InputGradient op = *ir::whole<ir::InputGradient>(node(a));
    for (int segments : ir::whole<ir::InputGradient>(node(b))->segments)
      op.segments.push_back(segments);
    std::vector<ValueId> args = ir::operands(node(a));
    for (ValueId id : ir::operands(node(b))) args.push_back(id);
    return builder_.node(Whole{op, args}).id();
  }

  // --- weight gradients

  ValueId base(ValueId id) const {
    const auto* slice = ir::whole<ir::Slice>(source_.graph.nodes[id]);
    return slice ? ir::operands(source_.graph.nodes[id])[0] : id;
  }

  /// Whether a program computes the value, so that it can store it beside others.
  bool on_tiles(ValueId id) const {
    const ir::Node& n = source_.graph.nodes[id];
    if (ir::whole<ir::Product>(n) || ir::whole<ir::InputGradient>(n)) return true;
    return !std::holds_alternative<ir::InputValue>(n) && !std::holds_alternative<Whole>(n);
  }

  void group_weight_gradients(const std::vector<ValueId>& live) {
    for (ValueId i : live)
      if (ir::whole<ir::WeightGradient>(source_.graph.nodes[i])) {
        groups_[ir::operands(source_.graph.nodes[i])[1]].push_back(i);
        late_.insert(i);
      } else if (source_.graph.info[i].weight_rows != 0 &&
                 std::holds_alternative<ir::Elementwise>(source_.graph.nodes[i])) {
        late_.insert(i);
      }
  }

  /// They come last: nothing but outputs reads them.
  void emit_weight_gradients() {
    std::set<ValueId> placed;
    for (const auto& [x, members] : groups_) {
      std::vector<ValueId> bases;
      for (ValueId i : members) {
        const ValueId b = base(ir::operands(source_.graph.nodes[i])[0]);
        if (std::find(bases.begin(), bases.end(), b) == bases.end()) bases.push_back(b);
      }
      const bool free = std::all_of(bases.begin(), bases.end(),
                                    [&](ValueId b) { return placed.count(b) == 0 && on_tiles(b); });
      std::map<ValueId, int64_t> first;
      ValueId together = -1;
      if (bases.size() > 1 && free) {
        std::vector<ValueId> parts;
        int64_t at = 0;
        for (ValueId b : bases) {
          placed.insert(b);
          parts.push_back(map_[b]);
          first[b] = at;
          at += source_.graph.info[b].dims.columns.width.numerator;
        }
        together = builder_.node(Whole{ir::Concat{}, parts}).id();
      }
      for (ValueId i : members) {
        const std::vector<ValueId> args = ir::operands(source_.graph.nodes[i]);
        ValueId dy = map_[args[0]];
        if (together >= 0) {
          const auto* slice = ir::whole<ir::Slice>(source_.graph.nodes[args[0]]);
          const int64_t width = source_.graph.info[args[0]].dims.columns.width.numerator;
          const int64_t at = first[base(args[0])] + (slice ? slice->first : 0);
          dy = builder_.node(Whole{ir::Slice{at, width}, {together}}).id();
        }
        map_[i] = builder_.node(Whole{ir::WeightGradient{}, {dy, map_[args[1]]}}).id();
      }
    }
    for (ValueId i : late_)
      if (map_[i] < 0)
        map_[i] = builder_
                      .node(ir::with_operands(source_.graph.nodes[i],
                                              [&](ValueId id) { return map_[id]; }))
                      .id();
  }

  const Joint& source_;
  ir::Builder builder_;
  std::vector<int> uses_;
  std::vector<ValueId> map_;
  struct Sum {
    ValueId rest, product;  // of the new graph
  };
  std::map<ValueId, Sum> sums_;                     // by the old graph's node
  std::map<ValueId, std::vector<ValueId>> groups_;  // by operand
  std::set<ValueId> late_;
};

}  // namespace

Joint sum_products(Joint joint) { return Sums(joint).run(); }

}  // namespace coda::rewrite

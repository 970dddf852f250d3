// SPDX-License-Identifier: Apache-2.0
// Pass 6, cut, first half: each product takes the work around it that its tiles allow.
//
// Nodes are taken in order. A node goes where its latest operand is computed, if that operand is
// still on the tile there and the widths fit; what it needs from earlier regions is loaded. Where a
// complete reduction of that region, another product or an opaque op stands in between, the node
// floats: each reader does it for itself, which costs loads but no store. A floating value that has
// to be in memory (the operand of a product, the argument of a reduction, an output) is attached to
// a region that has its operands anyway; only where there is none it becomes a pass of its own.
// Operands of weight gradients are attached last, when all regions are known: close behind the
// gradient that they meet, so that they do not lie in memory through the layers between.
#include <coda/error.h>

#include <algorithm>
#include <cstdlib>

#include "rewrite/regions.h"

namespace coda::rewrite {
namespace {

using ir::Columns;
using ir::ValueId;
using ir::Whole;

class Cutter {
 public:
  Cutter(const Joint& joint, const Options& options)
      : graph_(joint.graph),
        first_backward_(joint.backward),
        fused_(options.fused),
        recompute_(options.recompute) {
    const size_t count = graph_.nodes.size();
    out_.home.assign(count, -1);
    out_.stage.assign(count, Stage::nowhere);
    level_.assign(count, -1);
  }

  Regions run() {
    const std::vector<ValueId> live = ir::live_nodes(graph_);
    if (fused_) find_pairs(live);
    bool began = false;
    for (ValueId v : live) {
      if (!began && v >= first_backward_) {
        require_outputs(0, first_backward_);
        if (recompute_) require_ends(live);
        out_.backward = out_.regions.size();
        began = true;
      }
      backward_ = began;
      place(v);
    }
    if (!began) out_.backward = out_.regions.size();
    for (ValueId v : out_.weight_gradients) {
      const auto& args = std::get<Whole>(graph_.nodes[v]).args;
      if (ir::whole<ir::WeightGradient>(graph_.nodes[v])) require(args[0]);
      require(args[1], level_[args[0]]);
    }
    require_outputs(0, static_cast<ValueId>(graph_.nodes.size()));
    return std::move(out_);
  }

 private:
  void require_outputs(ValueId begin, ValueId end) {
    for (const ir::Output& output : graph_.outputs)
      if (begin <= output.value && output.value < end && info(output.value).weight_rows == 0)
        require(output.value);
  }

  /// What recomputation begins from lies in memory.
  void require_ends(const std::vector<ValueId>& live) {
    for (ValueId v : live)
      if (v < first_backward_ && ends_block(graph_, v)) require(v);
  }

  const ir::ValueInfo& info(ValueId v) const { return graph_.info[v]; }
  const ir::Node& node(ValueId v) const { return graph_.nodes[v]; }
  bool is_tile(ValueId v) const { return info(v).dims.is_tile(); }

  static bool is_reduction(const ir::Node& node) {
    const auto* n = std::get_if<ir::Reduce>(&node);
    return n && n->kept.columns.kind != Columns::Kind::group;
  }
  bool is_alias(ValueId v) const {
    return ir::whole<ir::Slice>(node(v)) || ir::whole<ir::Concat>(node(v)) ||
           ir::whole<ir::Repeat>(node(v)) || ir::whole<ir::Period>(node(v));
  }
  bool is_product(ValueId v) const {
    return ir::whole<ir::Product>(node(v)) || ir::whole<ir::InputGradient>(node(v));
  }

  // --- two accumulators

  /// Pairs of products with one operand and one width that meet elementwise.
  void find_pairs(const std::vector<ValueId>& live) {
    std::map<ValueId, std::set<ValueId>> sources;
    for (ValueId v : live) {
      std::set<ValueId>& mine = sources[v];
      if (ir::whole<ir::Product>(node(v))) {
        mine.insert(v);
      } else if (is_tile(v) && !std::holds_alternative<Whole>(node(v))) {
        for (ValueId id : ir::operands(node(v)))
          mine.insert(sources[id].begin(), sources[id].end());
      }
      for (ValueId p : mine)
        for (ValueId q : mine)
          if (p < q && alike(p, q) && !pair_.count(p) && !pair_.count(q) && !taken_.count(p)) {
            pair_[q] = p;
            taken_.insert(p);
          }
    }
  }

  bool alike(ValueId p, ValueId q) const {
    const std::vector<ValueId> a = ir::operands(node(p)), b = ir::operands(node(q));
    return a.size() == 2 && b.size() == 2 && a[0] == b[0] && info(p).dims == info(q).dims;
  }

  // --- placing

  int open(int64_t columns) {
    Region region;
    region.columns = columns;
    out_.regions.push_back(std::move(region));
    loads_.emplace_back();
    return static_cast<int>(out_.regions.size()) - 1;
  }

  void settle(ValueId v, int region, Stage stage) {
    out_.home[v] = region;
    out_.stage[v] = stage;
    level_[v] = region;
    for (ValueId id : ir::operands(node(v))) note_loads(id, region);
  }

  /// The tiles that region `region` has at hand once it computes from `v`.
  void note_loads(ValueId v, int region) {
    if (!loads_[region].insert(v).second) return;
    if (out_.home[v] < 0 && !is_alias(v))
      for (ValueId id : ir::operands(node(v))) note_loads(id, region);
  }

  static int64_t width(const ir::ValueInfo& info) {
    return info.dims.columns.kind == Columns::Kind::none ? 1 : info.dims.columns.width.numerator;
  }

  bool width_fits(ValueId v, int region) const {
    if (info(v).dims.columns.kind == Columns::Kind::none) return true;
    const int64_t n = out_.regions[region].columns, w = width(info(v));
    return w == n || 2 * w == n || w == 2 * n;
  }

  void place(ValueId v) {
    const ir::Node& n = node(v);
    if (info(v).weight_rows != 0) {
      if (ir::whole<ir::WeightGradient>(n) || ir::whole<ir::EmbeddingGradient>(n))
        out_.weight_gradients.push_back(v);
      return;
    }
    if (is_product(v)) return place_product(v);
    if (is_alias(v)) return place_alias(v);
    if (std::holds_alternative<Whole>(n)) return place_opaque(v);
    if (is_reduction(n)) return place_reduction(v, std::get<ir::Reduce>(n).arg);
    place_local(v);
  }

  void place_product(ValueId v) {
    const std::vector<ValueId> args = ir::operands(node(v));
    for (ValueId id : args)
      if (info(id).weight_rows == 0) require(id);
    const auto pair = pair_.find(v);
    int region = pair == pair_.end() ? open(width(info(v))) : out_.home[pair->second];
    out_.regions[region].products.push_back(v);
    out_.home[v] = region;
    out_.stage[v] = Stage::tile;
    level_[v] = region;
  }

  void place_alias(ValueId v) {
    for (ValueId id : ir::operands(node(v))) {
      if (info(v).dims.rows) require(id);
      level_[v] = std::max(level_[v], level_[id]);
    }
  }

  void place_opaque(ValueId v) {
    const auto* attention = ir::whole<ir::Attention>(node(v));
    if (attention)
      for (size_t r = 0; r < out_.regions.size(); ++r)
        for (ValueId other : out_.regions[r].ops)
          if (const auto* same = ir::whole<ir::Attention>(node(other));
              same && same->shape == attention->shape &&
              ir::operands(node(other)) == ir::operands(node(v)) &&
              (!backward_ || r >= out_.backward)) {
            out_.regions[r].ops.push_back(v);
            return settle(v, static_cast<int>(r), Stage::stored);
          }
    for (ValueId id : ir::operands(node(v)))
      if (info(id).weight_rows == 0) require(id);
    const int region = open(width(info(v)));
    out_.regions[region].opaque = true;
    out_.regions[region].ops.push_back(v);
    settle(v, region, Stage::stored);
  }

  /// The region of the latest operand, if the operand's stage there is `stage` and stays usable.
  bool latest_is(ValueId v, int region, Stage stage) const {
    for (ValueId id : ir::operands(node(v)))
      if (level_[id] == region && (out_.home[id] != region || out_.stage[id] != stage))
        return false;
    return true;
  }

  /// Whether nodes may join a region: not gradients a forward one, not without fusion a product.
  bool joinable(int region) const {
    const Region& r = out_.regions[region];
    return !r.opaque && (!backward_ || region >= static_cast<int>(out_.backward)) &&
           (fused_ || r.products.empty());
  }

  void place_local(ValueId v) {
    int latest = -1;
    for (ValueId id : ir::operands(node(v))) latest = std::max(latest, level_[id]);
    level_[v] = latest;
    if (latest < 0 || !joinable(latest)) return;
    if (latest_is(v, latest, Stage::tile) && width_fits(v, latest))
      return settle(v, latest, Stage::tile);
    if (is_tile(v) || !latest_is(v, latest, Stage::complete)) return;
    for (ValueId id : ir::operands(node(v)))
      if (!(info(id).dims == info(v).dims) && !info(id).dims.is_scalar()) return;
    settle(v, latest, Stage::complete);
  }

  void place_reduction(ValueId v, ValueId arg) {
    const int region = level_[arg];
    if (region >= 0 && out_.home[arg] == region && out_.stage[arg] == Stage::tile &&
        joinable(region))
      return settle(v, region, Stage::complete);
    int to = host(v);
    if (to < 0) to = open(width(info(arg)));
    adopt(arg, to);
    settle(v, to, Stage::complete);
  }

  // --- floating values that have to be somewhere

  /// Makes sure that v will be in memory for regions opened from now on. Where it floats, it is
  /// made as close to region `near` as some region has its operands.
  void require(ValueId v, int near = 0) {
    if (std::holds_alternative<ir::InputValue>(node(v))) return;
    if (is_alias(v)) {
      for (ValueId id : ir::operands(node(v))) require(id, near);
      return;
    }
    if (out_.home[v] < 0) {
      int to = host(v, near);
      if (to < 0) to = open(width(info(v)));
      adopt(v, to);
    }
    out_.regions[out_.home[v]].stores.insert(v);
  }

  /// Gives what of v and its operands is in no region a home in `region`.
  void adopt(ValueId v, int region) {
    if (out_.home[v] >= 0 || is_alias(v) || std::holds_alternative<ir::InputValue>(node(v))) return;
    if (ir::operands(node(v)).empty()) return;
    for (ValueId id : ir::operands(node(v)))
      if (level_[id] >= 0 || is_tile(id)) adopt(id, region);
    settle(v, region, Stage::tile);
  }

  /// A region that can compute floating v and loads one of its tiles anyway, or -1: the one
  /// closest to region `near`, of two the later.
  int host(ValueId v, int near = 0) const {
    std::set<ValueId> leaves;
    collect_leaves(v, leaves);
    const int first = backward_ ? static_cast<int>(out_.backward) : 0;
    int closest = -1;
    for (int region = first; region < static_cast<int>(out_.regions.size()); ++region) {
      const ValueId wide = is_reduction(node(v)) ? std::get<ir::Reduce>(node(v)).arg : v;
      const bool same_width = width(info(wide)) == out_.regions[region].columns;
      if (!joinable(region) || !same_width) continue;
      bool possible = true, shares = false;
      for (ValueId leaf : leaves) {
        const bool here = out_.home[leaf] == region && out_.stage[leaf] == Stage::tile;
        if (!here && level_[leaf] >= region) possible = false;
        const bool shaped = is_tile(leaf) || !is_tile(wide);
        shares =
            shares || (shaped && info(leaf).dims.rows && (here || loads_[region].count(leaf) > 0));
      }
      const bool closer = closest < 0 || std::abs(region - near) <= std::abs(closest - near);
      if (possible && shares && closer) closest = region;
    }
    return closest;
  }

  /// The values in memory or on tiles that floating v is computed from.
  void collect_leaves(ValueId v, std::set<ValueId>& leaves) const {
    for (ValueId id : ir::operands(node(v))) {
      const bool leaf = out_.home[id] >= 0 || is_alias(id) || ir::operands(node(id)).empty();
      if (leaf)
        leaves.insert(id);
      else
        collect_leaves(id, leaves);
    }
  }

  const ir::Program& graph_;
  const ValueId first_backward_;
  const bool fused_, recompute_;
  bool backward_ = false;
  Regions out_;
  std::vector<int> level_;  // the last region that a value needs; -1: inputs alone
  std::vector<std::set<ValueId>> loads_;
  std::map<ValueId, ValueId> pair_;
  std::set<ValueId> taken_;
};

}  // namespace

Regions find_regions(const Joint& joint, const Options& options) {
  return Cutter(joint, options).run();
}

void mark(const ir::Program& graph, Regions& regions, ValueId v) {
  const ir::Node& node = graph.nodes[v];
  if (std::holds_alternative<ir::InputValue>(node)) return;
  if (ir::whole<ir::Slice>(node) || ir::whole<ir::Concat>(node) || ir::whole<ir::Period>(node)) {
    for (ValueId id : ir::operands(node)) mark(graph, regions, id);
    return;
  }
  if (regions.home[v] >= 0) regions.regions[regions.home[v]].stores.insert(v);
}

}  // namespace coda::rewrite

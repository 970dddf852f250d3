// SPDX-License-Identifier: Apache-2.0
// Pass 6, cut, second half: regions become steps, values become buffers.
//
// Regions are built from the last to the first, so that what later ones load is known when the one
// that makes it is built. Weight gradients, which are in no region, come behind those they wait
// for.
#include <coda/error.h>

#include <algorithm>

#include "rewrite/places.h"
#include "rewrite/region_program.h"
#include "rewrite/weight_gradients.h"

namespace coda::rewrite {
namespace {

using ir::ValueId;
using ir::Whole;

class Cut {
 public:
  Cut(const Joint& joint, Regions regions)
      : graph_(joint.graph),
        backward_(joint.backward),
        regions_(std::move(regions)),
        places_(graph_, regions_, plan_) {
    plan_.name = graph_.name;
  }

  Plan run() {
    std::vector<std::pair<double, Step>> steps;
    for (size_t r = regions_.regions.size(); r-- > 0;)
      if (auto step = build(static_cast<int>(r)))
        steps.emplace_back(static_cast<double>(r), std::move(*step));
    for (auto& [key, step] : weight_gradients(graph_, regions_, places_))
      steps.emplace_back(key, std::move(step));
    std::stable_sort(steps.begin(), steps.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [key, step] : steps) {
      if (key < static_cast<double>(regions_.backward)) plan_.backward = plan_.steps.size() + 1;
      plan_.steps.push_back(std::move(step));
    }
    finish();
    places_.note_block_ends(backward_);
    return std::move(plan_);
  }

 private:
  const ir::Node& node(ValueId v) const { return graph_.nodes[v]; }

  std::optional<Step> build(int r) {
    const Region& region = regions_.regions[r];
    if (region.opaque) return build_opaque(region);
    if (region.stores.empty()) return std::nullopt;
    return region_step(graph_, regions_, places_, r);
  }

  std::optional<Step> build_opaque(const Region& region) {
    const std::vector<ValueId> args = ir::operands(node(region.ops[0]));
    bool read = false;
    for (ValueId v : region.ops) read = read || region.stores.count(v) > 0;
    if (!read) return std::nullopt;
    for (ValueId id : args) mark(graph_, regions_, id);
    Step step{ir::name_of(std::get<Whole>(node(region.ops[0])).op)};
    if (const auto* n = ir::whole<ir::Attention>(node(region.ops[0]))) {
      AttentionCall call{n->shape, places_.one(args[0]), {}, {}};
      for (ValueId v : region.ops)
        (ir::whole<ir::Attention>(node(v))->part == 0 ? call.y : call.lse) = places_.one(v);
      if (call.y.buffer < 0)
        call.y = places_.spare(n->shape.query_heads * n->shape.head_size, {true});
      if (call.lse.buffer < 0) call.lse = places_.spare(n->shape.query_heads, {false, DType::f32});
      step.call = call;
    } else if (const auto* n = ir::whole<ir::AttentionGradient>(node(region.ops[0]))) {
      step.call = AttentionGradientCall{n->shape,
                                        places_.one(args[0]),
                                        places_.one(args[1]),
                                        places_.one(args[2]),
                                        places_.one(args[3]),
                                        places_.one(region.ops[0])};
    } else {
      step.call =
          EmbeddingCall{places_.one(args[0]), places_.one(args[1]), places_.one(region.ops[0])};
    }
    return step;
  }

  /// Which buffers outlive the forward steps.
  void finish() {
    keep_sums(plan_);
    std::vector<bool> forward(plan_.buffers.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      for (const Ref& ref : reads(plan_.steps[s]))
        if (s >= plan_.backward && forward[ref.buffer] &&
            plan_.buffers[ref.buffer].role == Buffer::Role::local)
          plan_.buffers[ref.buffer].role = Buffer::Role::saved;
      if (s >= plan_.backward) continue;
      for (const Ref& ref : writes(plan_.steps[s])) forward[ref.buffer] = true;
    }
  }

  const ir::Program& graph_;
  const ValueId backward_;
  Regions regions_;
  Plan plan_;
  Places places_;
};

}  // namespace

Plan cut(const Joint& joint, const Options& options) {
  return Cut(joint, find_regions(joint, options)).run();
}

}  // namespace coda::rewrite

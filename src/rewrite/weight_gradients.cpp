// SPDX-License-Identifier: Apache-2.0
#include "rewrite/weight_gradients.h"

#include <algorithm>

namespace coda::rewrite {
namespace {

using ir::Columns;
using ir::Dims;
using ir::ValueId;

class WeightGradients {
 public:
  WeightGradients(const ir::Program& graph, const Regions& regions, Places& places)
      : graph_(graph), regions_(regions), places_(places) {}

  std::vector<std::pair<double, Step>> run() {
    std::map<std::pair<int, ValueId>, std::vector<GradientPart>> groups;  // by memory and operand
    std::vector<std::pair<double, Step>> steps;
    for (const auto& [v, buffer] : places_.gradients()) {
      const std::vector<ValueId> args = ir::operands(node(v));
      const double key = std::max(level(args[0]), level(args[1])) + 0.5;
      if (ir::whole<ir::WeightGradient>(node(v))) {
        const auto* slice = ir::whole<ir::Slice>(node(args[0]));
        const ValueId base = slice ? ir::operands(node(args[0]))[0] : args[0];
        groups[{places_.one(base).buffer, args[1]}].push_back({v, buffer});
      } else {
        steps.emplace_back(key,
                           Step{"embedding_gradient",
                                EmbeddingGradientCall{places_.one(args[0]), places_.one(args[1]),
                                                      places_.whole(buffer)}});
      }
    }
    for (auto& [key, members] : groups) add_weight_gradient(members, steps);
    // None runs before the backward steps begin.
    for (auto& [key, step] : steps)
      key = std::max(key, static_cast<double>(regions_.backward) + 0.25);
    return steps;
  }

 private:
  const ir::Node& node(ValueId v) const { return graph_.nodes[v]; }

  int level(ValueId v) const {
    if (regions_.home[v] >= 0) return regions_.home[v];
    int result = -1;
    if (ir::whole<ir::Slice>(node(v)) || ir::whole<ir::Concat>(node(v)))
      for (ValueId id : ir::operands(node(v))) result = std::max(result, level(id));
    return result;
  }

  /// One product for gradients whose upstreams are neighbours in one buffer.
  void add_weight_gradient(std::vector<GradientPart> members,
                           std::vector<std::pair<double, Step>>& steps) {
    const auto upstream = [&](const GradientPart& g) {
      return places_.one(ir::operands(node(g.value))[0]);
    };
    std::sort(members.begin(), members.end(), [&](const GradientPart& a, const GradientPart& b) {
      return upstream(a).first < upstream(b).first;
    });
    while (!members.empty()) {
      Ref a = upstream(members[0]);
      size_t count = 1;
      while (count < members.size() && upstream(members[count]).first == a.first + a.columns)
        a.columns += upstream(members[count++]).columns;
      ProgramCall call = weight_gradient_call();
      const ValueId x = ir::operands(node(members[0].value))[1];
      Ref b = places_.one(x);
      a.transposed = b.transposed = true;
      call.rows = a.columns;
      call.columns = b.columns;
      call.products = {{"a", a, {b}}};
      TensorArgument d{"d", {}, true};
      int latest = level(x);
      for (size_t i = 0; i < count; ++i) {
        d.segments.push_back(places_.whole(members[i].buffer));
        latest = std::max(latest, level(ir::operands(node(members[i].value))[0]));
      }
      call.outputs = {d};
      d.name = "old";
      call.previous = {d};
      steps.emplace_back(latest + 0.5, Step{"weight_gradient", std::move(call)});
      members.erase(members.begin(), members.begin() + static_cast<ptrdiff_t>(count));
    }
  }

  static ProgramCall weight_gradient_call() {
    ProgramCall call;
    call.rows_are_tokens = false;
    const Dims full{true, {Columns::Kind::all, ir::symbol_size(ir::kSymbolN), {}}};
    for (const bool adding : {false, true}) {
      ir::Builder builder("weight_gradient");
      Value d = builder.input({"a", ir::Input::Kind::accumulator, {}, {}});
      if (adding)
        d = builder.input({"old", ir::Input::Kind::tensor, {false, DType::f32}, full}) + d;
      else
        d = builder.node(ir::InputValue{0});
      builder.output({"d", {false, DType::f32}, full, d.id()});
      if (adding)
        call.adding = builder.finish();
      else
        call.program = builder.finish();
    }
    return call;
  }

  const ir::Program& graph_;
  const Regions& regions_;
  Places& places_;
};

}  // namespace

std::vector<std::pair<double, Step>> weight_gradients(const ir::Program& graph,
                                                      const Regions& regions, Places& places) {
  return WeightGradients(graph, regions, places).run();
}

}  // namespace coda::rewrite

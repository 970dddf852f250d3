// SPDX-License-Identifier: Apache-2.0
#include "rewrite/rewrite.h"

#include "rewrite/passes.h"

namespace coda::rewrite {

Rewritten rewrite_graph(const ir::Program& graph, const Options& options) {
  const auto show = [&](const char* pass, const ir::Program& result) {
    if (options.dump) options.dump(pass, ir::dump(result));
  };
  ir::Program now = ir::eliminate(expand(graph));
  show("expand", now);
  if (options.fused) {
    now = defer(now);
    show("defer", now);
    now = join(now);
    show("join", now);
  }
  std::set<std::string> chunked = chunked_weights(now, options);
  Joint joint = differentiate(now, options);
  show("differentiate", joint.graph);
  if (options.fused) {
    joint = sum_products(std::move(joint));
    show("sum_products", joint.graph);
  }
  return {std::move(joint), std::move(chunked)};
}

Plan rewrite(const ir::Program& graph, const Options& options) {
  const Rewritten rewritten = rewrite_graph(graph, options);
  Plan plan = cut(rewritten.joint, options);
  find_ids(graph, plan);
  if (options.dump) options.dump("cut", to_string(plan));
  chunk(plan, rewritten.chunked, options);
  if (options.dump) options.dump("chunk", to_string(plan));
  find_summands(plan);
  if (options.recompute && !options.of.empty()) {
    recompute(plan);
    if (options.dump) options.dump("recompute", to_string(plan));
  }
  return plan;
}

}  // namespace coda::rewrite

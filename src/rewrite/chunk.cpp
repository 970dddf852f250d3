// SPDX-License-Identifier: Apache-2.0
// Pass 7, chunk: matrices as wide as the vocabulary are made a few tokens at a time.
//
// The steps that touch such a matrix (the head's product, the loss's gradient, the products that
// use it) become a loop over chunks of tokens, and the matrix holds one chunk. What the loop makes
// for each token lies in its rows; what it sums over tokens (weight gradients) is added from the
// second chunk on; what is computed from such a sum comes after the loop. Steps in between that the
// loop does not need come after it, the others before it.
#include <coda/error.h>

#include <algorithm>
#include <iterator>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::ValueId;

bool touches(const Step& step, const std::vector<bool>& wide) {
  const auto is_wide = [&](const Ref& ref) { return wide[ref.buffer]; };
  const std::vector<Ref> in = reads(step), out = writes(step);
  return std::any_of(in.begin(), in.end(), is_wide) || std::any_of(out.begin(), out.end(), is_wide);
}

/// The matrices as wide as the weights' products: what those products make, what the gradient's
/// products read, and what passes make of either.
std::vector<bool> wide_buffers(const Plan& plan, const std::set<std::string>& weights) {
  std::vector<bool> wide(plan.buffers.size());
  const auto mark = [&](const Ref& ref, int64_t columns) {
    const Buffer& buffer = plan.buffers[ref.buffer];
    if (buffer.per_token && buffer.columns == columns &&
        (buffer.role == Buffer::Role::local || buffer.role == Buffer::Role::saved))
      wide[ref.buffer] = true;
  };
  for (const Step& step : plan.steps) {
    const auto* call = std::get_if<ProgramCall>(&step.call);
    if (!call) continue;
    for (const ProductTerm& term : call->products)
      for (const Ref& ref : term.weights) {
        const Buffer& weight = plan.buffers[ref.buffer];
        if (!weights.count(weight.name)) continue;
        if (ref.transposed) {
          mark(term.a, weight.rows);
        } else {
          for (const Ref& out : writes(step)) mark(out, weight.rows);
        }
      }
  }
  for (const Step& step : plan.steps) {
    const auto* call = std::get_if<ProgramCall>(&step.call);
    if (!call || !call->products.empty() || !touches(step, wide)) continue;
    for (const Ref& out : writes(step)) mark(out, call->columns);
  }
  return wide;
}

}  // namespace

std::set<ValueId> chunked_products(const ir::Program& graph, const Options& options) {
  std::set<ValueId> result;
  if (options.chunk_columns <= 0) return result;
  std::vector<bool> reaches(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const ir::Node& node = graph.nodes[i];
    const auto* reduce = std::get_if<ir::Reduce>(&node);
    const bool loss = reduce && reduce->op == ir::ReduceOp::logsumexp;
    if (ir::whole<ir::Product>(node)) {
      const ir::Size wanted = ir::constant_size(options.chunk_columns);
      if (reaches[i] && graph.info[i].dims.columns.width == wanted)
        result.insert(static_cast<ValueId>(i));
    } else if (loss || (reaches[i] && !reduce && !std::holds_alternative<ir::Whole>(node))) {
      for (ValueId id : ir::operands(node)) reaches[id] = true;
    }
  }
  return result;
}

std::set<std::string> chunked_weights(const ir::Program& graph, const Options& options) {
  std::set<std::string> result;
  for (ValueId product : chunked_products(graph, options))
    for (ValueId id : ir::operands(graph.nodes[product]))
      if (graph.info[id].weight_rows != 0)
        if (const auto* input = std::get_if<ir::InputValue>(&graph.nodes[id]))
          result.insert(graph.inputs[input->input].name);
  return result;
}

void chunk(Plan& plan, const std::set<std::string>& weights, const Options& options) {
  if (weights.empty()) return;
  const std::vector<bool> wide = wide_buffers(plan, weights);
  const size_t count = plan.steps.size();
  std::vector<bool> inside(count), before(count), after(count);
  for (size_t s = 0; s < count; ++s) inside[s] = touches(plan.steps[s], wide);
  // What a step inside needs runs before the loop, what needs one of them after it.
  std::vector<bool> needed(plan.buffers.size()), made(plan.buffers.size());
  for (size_t s = count; s-- > 0;) {
    for (const Ref& ref : writes(plan.steps[s])) before[s] = before[s] || needed[ref.buffer];
    if (inside[s] || before[s])
      for (const Ref& ref : reads(plan.steps[s])) needed[ref.buffer] = true;
  }
  for (size_t s = 0; s < count; ++s) {
    for (const Ref& ref : reads(plan.steps[s])) after[s] = after[s] || made[ref.buffer];
    if (inside[s] || after[s])
      for (const Ref& ref : writes(plan.steps[s])) made[ref.buffer] = true;
  }
  std::vector<Step> ordered;
  size_t backward = plan.backward;
  const auto take = [&](const auto& chosen) {
    for (size_t s = 0; s < count; ++s)
      if (chosen(s)) ordered.push_back(plan.steps[s]);
  };
  size_t first = count, last = 0;
  for (size_t s = 0; s < count; ++s)
    if (inside[s]) first = std::min(first, s), last = s + 1;
  if (first == count) return;
  for (size_t s = first; s < last; ++s)
    if (!inside[s] && before[s] && after[s])
      throw Error(ErrorKind::unsupported, "chunk",
                  "a loss whose gradient needs nothing that is known only after all tokens",
                  "step '" + plan.steps[s].name + "'",
                  "make the divisor of the loss an input, keep the head to the loss, or use no "
                  "chunks");
  const auto early = [&](size_t s) { return !inside[s] && (s < first || (s < last && !after[s])); };
  take(early);
  plan.chunk_begin = ordered.size();
  take([&](size_t s) { return inside[s]; });
  plan.chunk_end = ordered.size();
  std::vector<Step> behind = split_loop_sums(plan, std::span(ordered).subspan(plan.chunk_begin));
  std::move(behind.begin(), behind.end(), std::back_inserter(ordered));
  take([&](size_t s) { return !inside[s] && !early(s); });
  if (first < backward)  // forward steps that moved behind the loop run with the backward ones
    backward = last <= plan.backward ? plan.backward + behind.size() : plan.chunk_begin;
  plan.backward = backward;
  plan.steps = std::move(ordered);
  plan.chunk_rows = options.chunk_rows;
  for (size_t b = 0; b < wide.size(); ++b)
    if (wide[b]) {
      plan.buffers[b].chunked = true;
      plan.buffers[b].role = Buffer::Role::local;
    }
}

}  // namespace coda::rewrite

// SPDX-License-Identifier: Apache-2.0
#include "execute/layout.h"

#include <coda/kernel.h>

#include <algorithm>

#include "base/checked.h"

namespace coda::execute {
namespace {

using rewrite::Buffer;
using rewrite::Plan;
using rewrite::Ref;

bool in_arena(const Buffer& buffer) {
  return buffer.role == Buffer::Role::local || buffer.role == Buffer::Role::saved;
}

size_t aligned(size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

/// First and last use of each buffer; the steps of a loop are alive together.
void find_lifetimes(const Plan& plan, std::vector<Placement>& placements) {
  for (Placement& placement : placements) placement.begin = plan.steps.size();
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const bool loop = s >= plan.chunk_begin && s < plan.chunk_end;
    const size_t begin = loop ? plan.chunk_begin : s, end = loop ? plan.chunk_end : s + 1;
    const auto use = [&](const Ref& ref) {
      Placement& placement = placements[ref.buffer];
      placement.begin = std::min(placement.begin, begin);
      placement.end = std::max(placement.end, end);
    };
    for (const Ref& ref : rewrite::reads(plan.steps[s])) use(ref);
    for (const Ref& ref : rewrite::writes(plan.steps[s])) use(ref);
  }
}

}  // namespace

int64_t rows_of(const Plan& plan, const Buffer& buffer, int64_t tokens) {
  if (!buffer.per_token) return buffer.rows;
  return buffer.chunked ? std::min(tokens, plan.chunk_rows) : tokens;
}

size_t bytes_of(const Plan& plan, const Buffer& buffer, int64_t tokens, DType type) {
  const DType storage = buffer.type.generic ? type : buffer.type.dtype;
  const std::string where = "[" + plan.name + "] '" + buffer.name + "'";
  const int64_t count = checked_multiply(rows_of(plan, buffer, tokens), buffer.columns, where);
  return static_cast<size_t>(
      checked_multiply(count, static_cast<int64_t>(size_of(storage)), where));
}

Layout lay_out(const Plan& plan, int64_t tokens, DType type) {
  Layout layout;
  layout.tokens = tokens;
  layout.placements.resize(plan.buffers.size());
  find_lifetimes(plan, layout.placements);
  std::vector<size_t> order;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const bool used = layout.placements[b].begin < layout.placements[b].end;
    if (!in_arena(plan.buffers[b]) || !used) continue;
    layout.placements[b].bytes = aligned(bytes_of(plan, plan.buffers[b], tokens, type));
    order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return layout.placements[a].bytes > layout.placements[b].bytes;
  });
  std::vector<size_t> placed;
  for (size_t b : order) {
    Placement& mine = layout.placements[b];
    // The others are sorted by offset: the first gap that is wide enough is taken.
    size_t offset = 0;
    for (size_t other : placed) {
      const Placement& there = layout.placements[other];
      if (there.begin >= mine.end || mine.begin >= there.end) continue;
      if (offset + mine.bytes <= there.offset) break;
      offset = std::max(offset, there.offset + there.bytes);
    }
    mine.offset = offset;
    layout.bytes = std::max(layout.bytes, offset + mine.bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), b, [&](size_t x, size_t y) {
      return layout.placements[x].offset < layout.placements[y].offset;
    });
    placed.insert(at, b);
  }
  return layout;
}

Peak peak(const Plan& plan, const Layout& layout) {
  Peak result;
  const auto alive = [&](size_t b, size_t step) {
    const Placement& placement = layout.placements[b];
    return placement.bytes > 0 && placement.begin <= step && step < placement.end;
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    size_t bytes = 0;
    for (size_t b = 0; b < plan.buffers.size(); ++b)
      if (alive(b, s)) bytes += layout.placements[b].bytes;
    if (bytes > result.bytes) result.step = s, result.bytes = bytes;
  }
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (alive(b, result.step))
      result.buffers.emplace_back(plan.buffers[b].name, layout.placements[b].bytes);
  std::stable_sort(result.buffers.begin(), result.buffers.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return result;
}

}  // namespace coda::execute

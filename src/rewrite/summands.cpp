// SPDX-License-Identifier: Apache-2.0
// Pass 8, summands: several steps may each make a summand of one gradient (a weight with two uses,
// an embedding that is the head as well). The first of them writes, the others add. Which one is
// first is known once the order of steps is, so this pass runs last.
#include <coda/error.h>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

void set_adding(Step& step) {
  if (auto* gradient = std::get_if<EmbeddingGradientCall>(&step.call)) gradient->adding = true;
  if (auto* program = std::get_if<ProgramCall>(&step.call)) program->adds = true;
}

/// The products that `step`, one joined product of weight gradients, is split into: one for
/// segments that are next to each other and alike, all written already or none.
std::vector<Step> split(const Plan& plan, const Step& step, std::set<int>& written) {
  const auto& call = std::get<ProgramCall>(step.call);
  const std::vector<Ref>& segments = call.outputs[0].segments;
  std::vector<Step> steps;
  int64_t first = call.products[0].a.first;
  for (size_t i = 0; i < segments.size();) {
    Step part = step;
    auto& piece = std::get<ProgramCall>(part.call);
    piece.outputs[0].segments.clear();
    const bool again = written.count(segments[i].buffer) > 0;
    const int64_t begin = first;
    std::set<int> mine;
    const auto fits = [&](int buffer) {
      return !mine.count(buffer) && (written.count(buffer) > 0) == again;
    };
    for (; i < segments.size() && fits(segments[i].buffer); ++i) {
      mine.insert(segments[i].buffer);
      piece.outputs[0].segments.push_back(segments[i]);
      first += plan.buffers[segments[i].buffer].rows;
    }
    written.insert(mine.begin(), mine.end());
    piece.adds = again;
    piece.previous[0].segments = piece.outputs[0].segments;
    piece.rows = first - begin;
    piece.products[0].a.first = begin;
    piece.products[0].a.columns = first - begin;
    steps.push_back(std::move(part));
  }
  return steps;
}

/// Whether `step` writes sums that an earlier step has written as well.
bool adds(const Plan& plan, const Step& step, std::set<int>& written) {
  size_t again = 0, all = 0;
  for (const Ref& ref : writes(step)) {
    const Buffer& buffer = plan.buffers[ref.buffer];
    if (buffer.per_token || buffer.role != Buffer::Role::output) continue;
    ++all;
    again += !written.insert(ref.buffer).second;
  }
  if (again != 0 && again != all)
    throw Error(ErrorKind::unsupported, step.name,
                "sums that are all written for the first time, or none", "both");
  return again != 0;
}

}  // namespace

void find_summands(Plan& plan) {
  std::vector<Step> steps;
  std::set<int> written;
  size_t begin = plan.chunk_begin, end = plan.chunk_end, backward = plan.backward;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    Step& step = plan.steps[s];
    std::vector<Step> parts;
    const auto* call = std::get_if<ProgramCall>(&step.call);
    if (call && !call->rows_are_tokens) {
      parts = split(plan, step, written);
    } else {
      if (adds(plan, step, written)) set_adding(step);
      parts.push_back(std::move(step));
    }
    const size_t more = parts.size() - 1;
    if (s < plan.chunk_begin) begin += more;
    if (s < plan.chunk_end) end += more;
    if (s < plan.backward) backward += more;
    for (Step& part : parts) steps.push_back(std::move(part));
  }
  plan.steps = std::move(steps);
  plan.chunk_begin = begin, plan.chunk_end = end, plan.backward = backward;
}

}  // namespace coda::rewrite

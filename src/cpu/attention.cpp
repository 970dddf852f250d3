// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "cpu/attention_check.h"
#include "cpu/attention_plan.h"
#include "cpu/math.h"
#include "cpu/workers.h"

namespace coda::cpu {
namespace {

using Pass = AttentionPlan::Pass;

/// One worker's memory and the calls of the kernels on it: one block of queries of one head at a
/// time.
class Forward {
 public:
  Forward(const AttentionPlan& plan, const TensorView& qkv, const TensorView& y,
          const TensorView& lse, float* scratch)
      : plan_(plan), qkv_(qkv), y_(y), lse_(lse) {
    const auto take = [&](int64_t floats) {
      float* begin = scratch;
      scratch += floats;
      return begin;
    };
    queries_ = take(kQueries * plan.head_size);
    outputs_ = take(kQueries * plan.key_pitch);
    maximum_ = take(kQueries), sum_ = take(kQueries);
    scores_ = take(kKeys * plan.panel_lanes), factors_ = take(plan.panel_lanes);
    staged_ = take(plan.panel_lanes * plan.head_size);
  }

  /// The blocks of one head follow each other, so that its keys and values stay in the cache.
  void run(int64_t unit) {
    const Sequence& sequence = plan_.sequence_of(unit / plan_.query_heads);
    const int64_t blocks = ceil_divide(sequence.length, kQueries);
    const int64_t at = unit - sequence.block * plan_.query_heads;
    const int64_t head = at / blocks, begin = at % blocks * kQueries;
    const int64_t end = std::min(begin + kQueries, sequence.length);
    for (int64_t query = begin; query < end; query += plan_.panel_lanes)
      start(sequence, head, query, query - begin, end);
    const int64_t key_head = head / plan_.group();
    const float* keys = plan_.keys(key_head) + sequence.row * plan_.key_pitch;
    const float* values = plan_.values(key_head) + sequence.row * plan_.key_pitch;
    for (int64_t key = plan_.first_block(begin); key < end; key += kKeys)
      for (int64_t query = begin; query < end; query += plan_.panel_lanes)
        step(sequence, keys, values, key, query, query - begin);
    for (int64_t query = begin; query < end; query += plan_.panel_lanes)
      finish(sequence, head, query, query - begin, end);
  }

 private:
  /// The queries of a panel, one in each lane, and nothing seen.
  void start(const Sequence& sequence, int64_t head, int64_t query, int64_t at, int64_t end) {
    const int64_t lanes = plan_.panel_lanes, size = plan_.head_size;
    const int64_t count = std::min(lanes, end - query);
    plan_.load(qkv_, sequence.begin + query, head * size, count, staged_, size);
    to_lanes(staged_, size, count, size, lanes, queries_ + at * size);
    std::fill_n(outputs_ + at * plan_.key_pitch, lanes * plan_.key_pitch, 0.0f);
    std::fill_n(maximum_ + at, lanes, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_ + at, lanes, 0.0f);
  }

  /// One panel of queries meets one block of keys.
  void step(const Sequence& sequence, const float* keys, const float* values, int64_t key,
            int64_t query, int64_t at) {
    const AttentionKernels& kernels = *plan_.kernels;
    const int64_t lanes = plan_.panel_lanes, pitch = plan_.key_pitch;
    const auto [first, end] = plan_.keys_of_panel(sequence, query, key);
    if (first >= end) return;
    kernels.multiply({end - first, lanes, plan_.head_size, keys + first * pitch, pitch, 1,
                      queries_ + at * plan_.head_size, lanes, scores_, lanes, false});
    kernels.probabilities(plan_.scores(sequence, end - first, scores_, lanes, first, query),
                          maximum_ + at, sum_ + at, factors_);
    float* outputs = outputs_ + at * pitch;
    kernels.scale_lanes(outputs, pitch, factors_);
    kernels.multiply({plan_.head_size, lanes, end - first, values + first * pitch, 1, pitch,
                      scores_, lanes, outputs, lanes, true});
  }

  void finish(const Sequence& sequence, int64_t head, int64_t query, int64_t at, int64_t end) {
    const int64_t lanes = plan_.panel_lanes, size = plan_.head_size;
    const int64_t count = std::min(lanes, end - query), row = sequence.begin + query;
    const float* outputs = outputs_ + at * plan_.key_pitch;
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t d = 0; d < size; ++d)
        staged_[l * size + d] = outputs[d * lanes + l] / sum_[at + l];
      static_cast<float*>(lse_.data)[(row + l) * lse_.strides[0] + head] =
          maximum_[at + l] + math::log(sum_[at + l]);
    }
    plan_.store(staged_, size, count, y_, row, head * size);
  }

  const AttentionPlan& plan_;
  const TensorView &qkv_, &y_, &lse_;
  float *queries_, *outputs_, *maximum_, *sum_, *scores_, *factors_, *staged_;
};

}  // namespace

size_t attention_workspace(const AttentionOptions& options, int64_t tokens, int threads) {
  return AttentionPlan("attention", Pass::forward, options, tokens, threads).bytes();
}

void attention(const AttentionOptions& options, const TensorView& qkv, const TensorView& y,
               const TensorView& lse, void* workspace, int threads) {
  const char* name = "attention";
  AttentionPlan plan(name, Pass::forward, options, tokens_of(name, qkv), threads);
  check_attention(plan, {{name, "qkv", qkv}, {name, "y", y, true}, {name, "lse", lse, true}});
  check_workspace(name, workspace, plan.bytes());
  plan.place(workspace);
  plan.widen(qkv);
  run_workers(plan.workers, plan.blocks * plan.query_heads, [&](int worker, const auto& next) {
    Forward forward(plan, qkv, y, lse, plan.scratch(worker));
    for (int64_t unit = next(); unit >= 0; unit = next()) forward.run(unit);
  });
}

}  // namespace coda::cpu

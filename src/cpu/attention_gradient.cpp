// SPDX-License-Identifier: Apache-2.0
// Each head of each sequence is one unit of work that sums the gradients of its keys and values in
// the workspace, one block of queries after the other; they are summed over the heads of a group
// afterwards, in the order of heads.
#include <algorithm>

#include "base/checked.h"
#include "cpu/attention_check.h"
#include "cpu/attention_plan.h"
#include "cpu/workers.h"

namespace coda::cpu {
namespace {

using Pass = AttentionPlan::Pass;

struct Tensors {
  const TensorView &qkv, &y, &lse, &dy, &dqkv;
};

/// One worker's memory and the calls of the kernels on it.
class Backward {
 public:
  Backward(const AttentionPlan& plan, const Tensors& tensors, float* scratch)
      : plan_(plan), t_(tensors) {
    const auto take = [&](int64_t floats) {
      float* begin = scratch;
      scratch += floats;
      return begin;
    };
    scores_ = take(kKeys * kQueries), gradients_ = take(kKeys * kQueries);
    query_lanes_ = take(kQueries * plan.head_size), dy_lanes_ = take(kQueries * plan.head_size);
    query_rows_ = take(kQueries * plan.pitch), dy_rows_ = take(kQueries * plan.pitch);
    dq_ = take(kQueries * plan.key_pitch);
    lse_ = take(kQueries), delta_ = take(kQueries);
    staged_ = take(plan.panel_lanes * plan.head_size);
  }

  void run(const Sequence& sequence, int64_t head) {
    sequence_ = sequence, head_ = head;
    const int64_t key_head = head / plan_.group();
    keys_ = plan_.keys(key_head) + sequence.row * plan_.key_pitch;
    values_ = plan_.values(key_head) + sequence.row * plan_.key_pitch;
    dk_ = plan_.key_gradients(head) + sequence.row * plan_.pitch;
    dv_ = plan_.value_gradients(head) + sequence.row * plan_.pitch;
    const int64_t rows = ceil_divide(sequence.length, plan_.panel_rows) * plan_.panel_rows;
    std::fill_n(dk_, rows * plan_.pitch, 0.0f);
    std::fill_n(dv_, rows * plan_.pitch, 0.0f);
    for (int64_t begin = 0; begin < sequence.length; begin += kQueries) {
      const int64_t end = std::min(begin + kQueries, sequence.length);
      start(begin, end);
      for (int64_t key = plan_.first_block(begin); key < end; key += kKeys) {
        for (int64_t query = begin; query < end; query += plan_.panel_lanes)
          panel_step(key, query, query - begin);
        key_step(key, begin, end);
      }
      finish(begin, end);
    }
  }

 private:
  /// Queries and dy of a block, as rows and as lanes, and the numbers that each query has one of.
  void start(int64_t begin, int64_t end) {
    const int64_t lanes = plan_.panel_lanes, size = plan_.head_size, pitch = plan_.pitch;
    const int64_t row = sequence_.begin + begin, column = head_ * size;
    std::fill_n(query_rows_, kQueries * pitch, 0.0f);
    std::fill_n(dy_rows_, kQueries * pitch, 0.0f);
    plan_.load(t_.qkv, row, column, end - begin, query_rows_, pitch);
    plan_.load(t_.dy, row, column, end - begin, dy_rows_, pitch);
    for (int64_t at = 0; begin + at < end; at += lanes) {
      const int64_t count = std::min(lanes, end - begin - at);
      to_lanes(query_rows_ + at * pitch, pitch, count, size, lanes, query_lanes_ + at * size);
      to_lanes(dy_rows_ + at * pitch, pitch, count, size, lanes, dy_lanes_ + at * size);
      plan_.load(t_.y, row + at, column, count, staged_, size);
      for (int64_t l = 0; l < lanes; ++l) {
        float delta = 0, lse = 0;  // of lanes beyond the sequence, whose results no one reads
        if (l < count) {
          const float* dy = dy_rows_ + (at + l) * pitch;
          for (int64_t d = 0; d < size; ++d) delta += dy[d] * staged_[l * size + d];
          lse = static_cast<const float*>(t_.lse.data)[(row + at + l) * t_.lse.strides[0] + head_];
        }
        delta_[at + l] = delta, lse_[at + l] = lse;
      }
    }
    std::fill_n(dq_, kQueries * plan_.key_pitch, 0.0f);
  }

  /// Probabilities and gradients of the scores of one panel of queries, and what they add to dq.
  void panel_step(int64_t key, int64_t query, int64_t at) {
    const AttentionKernels& kernels = *plan_.kernels;
    const int64_t lanes = plan_.panel_lanes, pitch = plan_.key_pitch, size = plan_.head_size;
    const auto [first, end] = plan_.keys_of_panel(sequence_, query, key);
    if (first >= end) return;
    float* scores = scores_ + (first - key) * kQueries + at;
    float* gradients = gradients_ + (first - key) * kQueries + at;
    kernels.multiply({end - first, lanes, size, keys_ + first * pitch, pitch, 1,
                      query_lanes_ + at * size, lanes, scores, kQueries, false});
    kernels.multiply({end - first, lanes, size, values_ + first * pitch, pitch, 1,
                      dy_lanes_ + at * size, lanes, gradients, kQueries, false});
    const int64_t whole = ceil_divide(end - first, plan_.panel_rows) * plan_.panel_rows;
    kernels.derivatives(plan_.scores(sequence_, whole, scores, kQueries, first, query), gradients,
                        lse_ + at, delta_ + at);
    kernels.multiply({size, lanes, end - first, keys_ + first * pitch, 1, pitch, gradients,
                      kQueries, dq_ + at * pitch, lanes, true});
  }

  /// What a block of queries adds to the gradients of a block of keys; register block by register
  /// block, since each is seen by queries of its own.
  void key_step(int64_t block, int64_t begin, int64_t end) {
    const int64_t rows = plan_.panel_rows, pitch = plan_.pitch;
    const int64_t last = std::min(block + kKeys, end);
    for (int64_t key = block; key < last; key += rows) {
      const int64_t from = std::max(begin, key);
      const int64_t to = plan_.window > 0 && plan_.window < end
                             ? std::min(end, key + rows - 1 + plan_.window)
                             : end;
      if (from >= to) continue;
      const int64_t at = (key - block) * kQueries + from - begin;
      const auto add = [&](const float* left, const float* right, float* sum) {
        plan_.kernels->multiply({rows, plan_.head_size, to - from, left + at, kQueries, 1,
                                 right + (from - begin) * pitch, pitch, sum + key * pitch, pitch,
                                 true});
      };
      add(scores_, dy_rows_, dv_);
      add(gradients_, query_rows_, dk_);
    }
  }

  void finish(int64_t begin, int64_t end) {
    const int64_t lanes = plan_.panel_lanes, size = plan_.head_size;
    for (int64_t at = 0; begin + at < end; at += lanes) {
      const int64_t count = std::min(lanes, end - begin - at);
      const float* dq = dq_ + at * plan_.key_pitch;
      for (int64_t l = 0; l < count; ++l)
        for (int64_t d = 0; d < size; ++d) staged_[l * size + d] = dq[d * lanes + l];
      plan_.store(staged_, size, count, t_.dqkv, sequence_.begin + begin + at, head_ * size);
    }
  }

  const AttentionPlan& plan_;
  const Tensors& t_;
  Sequence sequence_{};
  int64_t head_ = 0;
  const float *keys_ = nullptr, *values_ = nullptr;
  float *dk_ = nullptr, *dv_ = nullptr;
  float *scores_, *gradients_, *query_lanes_, *dy_lanes_, *query_rows_, *dy_rows_, *dq_, *lse_,
      *delta_, *staged_;
};

/// Sums over the heads of a group, in place in that of its first head, and rounds.
void sum_group(const AttentionPlan& plan, const Sequence& sequence, int64_t key_head,
               const TensorView& dqkv) {
  const int64_t size = plan.head_size, pitch = plan.pitch, floats = sequence.length * pitch;
  const int64_t first = key_head * plan.group();
  for (const bool value : {false, true}) {
    const auto of_head = [&](int64_t head) {
      return (value ? plan.value_gradients(head) : plan.key_gradients(head)) + sequence.row * pitch;
    };
    float* sum = of_head(first);
    for (int64_t head = first + 1; head < first + plan.group(); ++head) {
      const float* more = of_head(head);
      for (int64_t i = 0; i < floats; ++i) sum[i] += more[i];
    }
    const int64_t column = (plan.query_heads + (value ? plan.key_heads : 0) + key_head) * size;
    plan.store(sum, pitch, sequence.length, dqkv, sequence.begin, column);
  }
}

}  // namespace

size_t attention_gradient_workspace(const AttentionOptions& options, int64_t tokens, int threads) {
  return AttentionPlan("attention_gradient", Pass::backward, options, tokens, threads).bytes();
}

void attention_gradient(const AttentionOptions& options, const TensorView& qkv, const TensorView& y,
                        const TensorView& lse, const TensorView& dy, const TensorView& dqkv,
                        void* workspace, int threads) {
  const char* name = "attention_gradient";
  AttentionPlan plan(name, Pass::backward, options, tokens_of(name, qkv), threads);
  check_attention(plan, {{name, "qkv", qkv},
                         {name, "y", y},
                         {name, "lse", lse},
                         {name, "dy", dy},
                         {name, "dqkv", dqkv, true}});
  check_workspace(name, workspace, plan.bytes());
  plan.place(workspace);
  plan.widen(qkv);
  const Tensors tensors{qkv, y, lse, dy, dqkv};
  const auto sequences = plan.sequences();
  const auto count = static_cast<int64_t>(sequences.size());
  run_workers(plan.workers, count * plan.query_heads, [&](int worker, const auto& next) {
    Backward backward(plan, tensors, plan.scratch(worker));
    for (int64_t unit = next(); unit >= 0; unit = next())
      backward.run(sequences[static_cast<size_t>(unit / plan.query_heads)],
                   unit % plan.query_heads);
  });
  run_workers(plan.workers, count * plan.key_heads, [&](int, const auto& next) {
    for (int64_t unit = next(); unit >= 0; unit = next())
      sum_group(plan, sequences[static_cast<size_t>(unit / plan.key_heads)], unit % plan.key_heads,
                dqkv);
  });
}

}  // namespace coda::cpu

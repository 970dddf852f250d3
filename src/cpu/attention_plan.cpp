// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention_plan.h"

#include <coda/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "cpu/workers.h"

namespace coda::cpu {
namespace {

constexpr int64_t kAlign = 64;

[[noreturn]] void refuse(const char* operation, const char* option, std::string_view expected,
                         std::string_view got, std::string_view fix) {
  throw Error(ErrorKind::argument,
              "[" + std::string(operation) + "] option '" + std::string(option) + "'", expected,
              got, fix);
}

void check_options(const char* operation, const AttentionOptions& o, int64_t tokens) {
  const auto positive = [&](const char* name, int64_t value) {
    if (value < 1)
      refuse(operation, name, "at least 1", std::to_string(value), "pass the model's own number");
  };
  positive("query_heads", o.query_heads);
  positive("key_heads", o.key_heads);
  positive("head_size", o.head_size);
  if (o.query_heads % o.key_heads != 0)
    refuse(operation, "query_heads",
           "a multiple of the " + std::to_string(o.key_heads) + " key heads",
           std::to_string(o.query_heads), "give each key head as many query heads as the others");
  if (!std::isfinite(o.scale))
    refuse(operation, "scale", "a finite number", std::to_string(o.scale),
           "pass 1 / sqrt(head_size) or the model's own factor");
  if (!std::isfinite(o.softcap) || o.softcap < 0)
    refuse(operation, "softcap", "a finite number of at least 0", std::to_string(o.softcap),
           "pass 0 for none");
  if (o.window < 0)
    refuse(operation, "window", "at least 0", std::to_string(o.window), "pass 0 for none");
  if (o.isa && !supports(*o.isa))
    throw Error(ErrorKind::unsupported, "[" + std::string(operation) + "] option 'isa'",
                "an instruction set that this processor has", "a wider one",
                "leave the choice to coda");
  if (tokens < 0)
    throw Error(ErrorKind::shape, "[" + std::string(operation) + "]", "at least 0 tokens",
                std::to_string(tokens), "pass the real shape");
  const std::span<const int64_t> ends = o.cumulative_lengths;
  if (ends.empty()) return;
  const char* name = "cumulative_lengths";
  if (ends.front() != 0)
    refuse(operation, name, "0 first", std::to_string(ends.front()), "begin with token 0");
  for (size_t i = 1; i < ends.size(); ++i)
    if (ends[i] < ends[i - 1])
      refuse(operation, name, "numbers that never fall",
             std::to_string(ends[i - 1]) + " before " + std::to_string(ends[i]) + " at " +
                 std::to_string(i),
             "pass sums of lengths, not lengths");
  if (ends.back() != tokens)
    refuse(operation, name, std::to_string(tokens) + " last, the number of tokens",
           std::to_string(ends.back()), "end with the number of tokens");
}

int64_t padded(int64_t count, int64_t width) { return ceil_divide(count, width) * width; }

}  // namespace

AttentionPlan::AttentionPlan(const char* operation, Pass pass, const AttentionOptions& options,
                             int64_t token_count, int threads)
    : query_heads(options.query_heads),
      key_heads(options.key_heads),
      head_size(options.head_size),
      window(options.window),
      scale(options.scale),
      softcap(options.softcap),
      tokens(token_count),
      ends_(options.cumulative_lengths) {
  check_options(operation, options, tokens);
  const Isa isa = options.isa.value_or(best_isa());
  kernels = &attention_kernels(isa);
  memory_ = &cpu::kernels(isa);
  panel_rows = kernels->rows, panel_lanes = kernels->columns;

  const std::string where = "[" + std::string(operation) + "]";
  const auto times = [&](int64_t a, int64_t b) { return checked_multiply(a, b, where); };
  const auto plus = [&](int64_t a, int64_t b) { return checked_add(a, b, where); };
  // Room for what follows without further checks: a few rows of each head, whatever the padding.
  times(plus(query_heads, times(2, key_heads)), times(8, plus(head_size, kQueries)));
  key_pitch = padded(head_size, panel_rows);
  pitch = padded(head_size, panel_lanes);
  const auto count = static_cast<int64_t>(ends_.empty() ? 1 : ends_.size() - 1);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = ends_.empty() ? tokens : ends_[i + 1] - ends_[i];
    rows = plus(rows, padded(plus(length, kQueries), panel_rows) - kQueries);
    blocks += ceil_divide(length, kQueries);
  }
  const bool backward = pass == Pass::backward;
  workers = worker_count(threads, times(blocks, query_heads));
  // Of the panels of a query block: queries and running sums; backward also dy and both as rows.
  const int64_t panel = times(
      kQueries, backward ? 2 * head_size + key_pitch + 2 * pitch + 2 : head_size + key_pitch + 2);
  const int64_t score_floats = backward ? 2 * kKeys * kQueries : (kKeys + 1) * panel_lanes;
  const int64_t rows_staged = times(panel_lanes, 2 * head_size);
  floats_per_worker = padded(plus(plus(panel, score_floats), rows_staged), kAlign / 4);

  int64_t offset = 0;
  const auto take = [&](int64_t elements, int64_t bytes_each) {
    const int64_t begin = offset;
    offset = plus(offset, plus(times(elements, bytes_each), kAlign - 1) / kAlign * kAlign);
    return static_cast<size_t>(begin);
  };
  table_ = take(count, sizeof(Sequence));
  const int64_t widened = times(times(key_heads, rows), key_pitch);
  keys_ = take(times(2, widened), sizeof(float));
  const int64_t gradients = backward ? times(times(query_heads, rows), pitch) : 0;
  key_gradients_ = take(gradients, sizeof(float));
  value_gradients_ = take(gradients, sizeof(float));
  scratch_ = take(times(workers, floats_per_worker), sizeof(float));
  total_ = static_cast<size_t>(plus(offset, kAlign));
}

void AttentionPlan::place(void* workspace) {
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  base_ = static_cast<std::byte*>(workspace) + (kAlign - address % kAlign) % kAlign;
  auto* table = reinterpret_cast<Sequence*>(base_ + table_);
  const size_t count = ends_.empty() ? 1 : ends_.size() - 1;
  Sequence next{};
  for (size_t i = 0; i < count; ++i) {
    next.length = ends_.empty() ? tokens : ends_[i + 1] - ends_[i];
    table[i] = next;
    next.begin += next.length;
    next.row += padded(next.length, panel_rows);
    next.block += ceil_divide(next.length, kQueries);
  }
  sequences_ = {table, count};
}

const Sequence& AttentionPlan::sequence_of(int64_t block) const {
  const auto after = std::upper_bound(
      sequences_.begin(), sequences_.end(), block,
      [](int64_t number, const Sequence& sequence) { return number < sequence.block; });
  return *(after - 1);
}

void AttentionPlan::widen(const TensorView& qkv) const {
  run_workers(workers, blocks, [&](int, const auto& next) {
    for (int64_t block = next(); block >= 0; block = next()) {
      const Sequence& sequence = sequence_of(block);
      const int64_t begin = (block - sequence.block) * kQueries;
      const int64_t end = std::min(begin + kQueries, sequence.length);
      // Along the rows as they lie in memory: all heads of one token, then the next token.
      for (int64_t i = begin; i < end; ++i)
        for (int64_t head = 0; head < 2 * key_heads; ++head) {
          float* to = at(keys_) + (head * rows + sequence.row + i) * key_pitch;
          load(qkv, sequence.begin + i, (query_heads + head) * head_size, 1, to, key_pitch);
          std::fill(to + head_size, to + key_pitch, 0.0f);
        }
      if (end < sequence.length) continue;
      for (int64_t head = 0; head < 2 * key_heads; ++head) {
        float* to = at(keys_) + (head * rows + sequence.row) * key_pitch;
        std::fill(to + end * key_pitch, to + padded(end, panel_rows) * key_pitch, 0.0f);
      }
    }
  });
}

void AttentionPlan::load(const TensorView& from, int64_t row, int64_t column, int64_t count,
                         float* to, int64_t to_pitch) const {
  const int64_t pitch_from = from.strides[0];
  std::byte* data = static_cast<std::byte*>(from.data) +
                    (row * pitch_from + column) * static_cast<int64_t>(size_of(from.dtype));
  memory_->load[static_cast<int>(from.dtype)](
      {count, head_size, data, pitch_from, 1, to, to_pitch, 1});
}

void AttentionPlan::store(const float* from, int64_t from_pitch, int64_t count,
                          const TensorView& to, int64_t row, int64_t column) const {
  const int64_t pitch_to = to.strides[0];
  std::byte* data = static_cast<std::byte*>(to.data) +
                    (row * pitch_to + column) * static_cast<int64_t>(size_of(to.dtype));
  memory_->store[0][static_cast<int>(to.dtype)](
      {count, head_size, data, pitch_to, 1, const_cast<float*>(from), from_pitch, 1});
}

AttentionPlan::Range AttentionPlan::keys_of_panel(const Sequence& sequence, int64_t query,
                                                  int64_t key) const {
  const int64_t first = window > 0 ? std::max(key, query - window + 1) : key;
  const int64_t end = std::min({key + kKeys, query + panel_lanes, sequence.length});
  return {key + (first - key) / panel_rows * panel_rows, end};
}

int64_t AttentionPlan::first_block(int64_t query) const {
  return window > 0 ? std::max<int64_t>(query - window + 1, 0) / kKeys * kKeys : 0;
}

ScoreArgs AttentionPlan::scores(const Sequence& sequence, int64_t count, float* data,
                                int64_t data_pitch, int64_t key, int64_t query) const {
  // Without a window every key up to the query is seen: one as wide as all lanes of the sequence.
  const int64_t endless = sequence.length + kQueries;
  return {count, data,   data_pitch, key - query, window > 0 ? std::min(window, endless) : endless,
          scale, softcap};
}

void to_lanes(const float* rows, int64_t row_pitch, int64_t count, int64_t size, int64_t lanes,
              float* panel) {
  for (int64_t l = 0; l < lanes; ++l)
    for (int64_t d = 0; d < size; ++d)
      panel[d * lanes + l] = l < count ? rows[l * row_pitch + d] : 0.0f;
}

}  // namespace coda::cpu

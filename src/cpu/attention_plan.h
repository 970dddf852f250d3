// SPDX-License-Identifier: Apache-2.0
// What both passes of attention share: the checks of their options, how the tokens are cut into
// blocks, where everything lies in the workspace, and keys and values as float32.
//
// Blocks are kQueries queries by kKeys keys, multiples of the columns and of the rows of every
// register block. The keys and values of a block stay in the first-level cache while its queries
// pass.
#pragma once

#include <array>

#include "cpu/attention.h"
#include "cpu/attention_kernels.h"
#include "cpu/kernels.h"

namespace coda::cpu {

inline constexpr int64_t kQueries = 96, kKeys = 48;
inline constexpr std::array kAttentionTypes = {DType::f32, DType::bf16, DType::f16};

struct Sequence {
  int64_t begin, length;  // tokens
  int64_t row;            // its first row in float32 matrices, whose sequences are padded
  int64_t block;          // the number of query blocks before it
};

class AttentionPlan {
 public:
  enum class Pass : unsigned char { forward, backward };

  /// Checks the options; `operation` is for messages.
  AttentionPlan(const char* operation, Pass pass, const AttentionOptions& options, int64_t tokens,
                int threads);

  int64_t width() const { return (query_heads + 2 * key_heads) * head_size; }
  int64_t group() const { return query_heads / key_heads; }
  size_t bytes() const { return total_; }

  /// Takes the workspace and writes the table of sequences to it.
  void place(void* workspace);
  std::span<const Sequence> sequences() const { return sequences_; }
  /// The sequence that a query block belongs to.
  const Sequence& sequence_of(int64_t block) const;

  /// Row 0 of a key head's keys or values [rows, key_pitch] as float32.
  float* keys(int64_t head) const { return at(keys_) + head * rows * key_pitch; }
  float* values(int64_t head) const { return keys(key_heads + head); }
  /// Backward: the gradients [rows, pitch] of a query head's keys and values.
  float* key_gradients(int64_t head) const { return at(key_gradients_) + head * rows * pitch; }
  float* value_gradients(int64_t head) const { return at(value_gradients_) + head * rows * pitch; }
  /// A worker's own `floats_per_worker` floats.
  float* scratch(int worker) const { return at(scratch_) + worker * floats_per_worker; }

  /// Widens the keys and values of qkv, with zeros in the padding.
  void widen(const TensorView& qkv) const;
  /// Widens `count` rows of one head, from its first column on, to rows `to_pitch` floats apart.
  void load(const TensorView& from, int64_t row, int64_t column, int64_t count, float* to,
            int64_t to_pitch) const;
  /// Rounds packed rows [count, head_size] to their place.
  void store(const float* from, int64_t from_pitch, int64_t count, const TensorView& to,
             int64_t row, int64_t column) const;
  /// The keys that a panel of queries from position `query` on sees within the block from `key` on:
  /// [begin, end), where begin starts a register block.
  struct Range {
    int64_t begin, end;
  };
  Range keys_of_panel(const Sequence& sequence, int64_t query, int64_t key) const;
  /// The first block of keys that a query sees, by its first position.
  int64_t first_block(int64_t query) const;
  /// Scores of the keys from `key` on by the panel of queries from `query` on.
  ScoreArgs scores(const Sequence& sequence, int64_t rows, float* data, int64_t data_pitch,
                   int64_t key, int64_t query) const;

  int64_t query_heads, key_heads, head_size, window;
  float scale, softcap;
  int64_t tokens;
  int64_t rows = 0;         // of padded sequences
  int64_t blocks = 0;       // of queries, over all sequences
  int64_t key_pitch = 0;    // head_size up to a multiple of a register block's rows
  int64_t pitch = 0;        // ... of its columns
  int64_t panel_rows = 0;   // of a register block
  int64_t panel_lanes = 0;  // its columns
  int64_t floats_per_worker = 0;
  int workers = 1;
  const AttentionKernels* kernels = nullptr;

 private:
  float* at(size_t offset) const { return reinterpret_cast<float*>(base_ + offset); }

  const Kernels* memory_ = nullptr;
  std::span<const int64_t> ends_;
  std::span<const Sequence> sequences_;
  std::byte* base_ = nullptr;
  size_t table_ = 0, keys_ = 0, key_gradients_ = 0, value_gradients_ = 0, scratch_ = 0;
  size_t total_ = 0;
};

/// Rows [count, size] become a panel [size, lanes], with zeros in lanes beyond `count`.
void to_lanes(const float* rows, int64_t row_pitch, int64_t count, int64_t size, int64_t lanes,
              float* panel);

}  // namespace coda::cpu

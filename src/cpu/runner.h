// SPDX-License-Identifier: Apache-2.0
// Runs a tape over tiles. One runner belongs to one worker: its arenas are not shared.
#pragma once

#include <span>

#include "call/call.h"
#include "cpu/grid.h"
#include "cpu/tape.h"

namespace coda::cpu {

/// What the tapes of one call read and write beside their slots.
struct CallMemory {
  const BoundCall& call;
  std::span<const Reduction> reductions;
  std::span<const Completed> completed;
  std::byte* workspace;  // base of the offsets in both
};

/// Where the accumulators of a tile lie: element (row, column) of the tile, by input; rows `stride`
/// apart.
struct TileAccumulators {
  std::span<const float* const> data;
  int64_t stride = 0;
};

class Runner {
 public:
  /// `tile_arena` and `block_arena` hold the tape's tile_bytes and block_bytes, aligned to 64.
  Runner(const Tape& tape, const Kernels& kernels, const CallMemory& memory, std::byte* tile_arena,
         std::byte* block_arena);

  void run(const Tile& tile, const TileAccumulators& accumulators);

 private:
  struct Place {
    std::byte* data;
    int64_t row_stride;  // in elements; 0 for values without rows
  };
  struct Memory {
    std::byte* data = nullptr;  // of element (0, 0) of the matrix
    int64_t row_stride = 0;
  };
  void find_memory();
  Place place(int instruction, int64_t row) const;
  void set_columns(int64_t n);
  void execute(int instruction, int64_t row, int64_t rows);
  void run_pointwise(int instruction, int64_t row, int64_t rows);
  void run_columnwise(const Instruction& code, int64_t columns, std::byte* out, int64_t row,
                      int64_t rows);
  void load(const Instruction& code, int64_t columns, std::byte* out, int64_t row,
            int64_t rows) const;
  void store(const Instruction& code, int64_t columns, int64_t row, int64_t rows) const;
  void group_reduce(const Instruction& code, int64_t columns, std::byte* out, int64_t row,
                    int64_t rows);
  void reduce(const Instruction& code, int64_t columns, int64_t row, int64_t rows);

  const Tape& tape_;
  const Kernels& kernels_;
  const CallMemory& memory_;
  std::byte* arenas_[2];
  std::vector<Memory> memory_of_;  // of values that lie in a tensor in place of a slot
  std::vector<bool> done_;         // loads and stores that this leaves nothing to do
  std::vector<int64_t> columns_;   // of each instruction's extent, in the tile at hand
  int64_t columns_of_ = -1;        // the tile width that columns_ is for
  Tile tile_{};
  TileAccumulators accumulators_;
};

/// Copies rows x columns elements from (row, column) of a binding to packed float32 or int64, by
/// the pieces that its segments cut the range into. A dimension the declaration lacks counts one.
void load_range(const Binding& binding, const Kernels& kernels, int64_t row, int64_t rows,
                int64_t column, int64_t columns, std::byte* to);

}  // namespace coda::cpu

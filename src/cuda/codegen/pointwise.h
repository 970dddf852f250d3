// SPDX-License-Identifier: Apache-2.0
// A program as stand-alone CUDA kernels, for any shape, stride, group and storage type.
//
// Every value of the tile is a function of (row, column), so a thread can evaluate it anywhere;
// split, join and swap only change the column. Each reduction is a pass of its own that leaves its
// results in the workspace; the outputs follow in element passes. Accumulators are read as float32
// matrices: this is the second half of the unfused path, and the whole of a program without a
// product.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "call/call.h"

namespace coda::cuda {

/// A kernel of the generated text; launched with any grid of `threads` threads a block, in this
/// order.
struct PointwisePass {
  std::string kernel;
  int threads;
  ir::Dims items;      // how many work items: rows (1 without) times columns
  bool warp_per_item;  // otherwise one thread
  bool row_chunks;     // items count chunks of kRowChunk rows instead of rows
};

/// One array of the workspace: `element` bytes for each result (or each partial of `partial_rows`).
struct PointwiseWork {
  int element;
  ir::Dims dims;  // of the results
  /// What the first extent counts: rows of `dims` (results), rows of the matrix, chunks of
  /// kRowChunk rows, tiles of a fused kernel along N (each with one value per row of the matrix) or
  /// along M.
  enum class Rows : unsigned char { results, matrix, chunks, tiles_n, tiles_m } rows;
};

struct Pointwise {
  std::string text;  // without the device text it is compiled after
  std::vector<PointwisePass> passes;
  std::vector<PointwiseWork> work;
};

inline constexpr int kRowChunk = 256;

/// Generates the kernels, called NAME_0, NAME_1, ...
Pointwise generate_pointwise(const Instance& instance, const std::string& name);

/// A reduction whose partials a fused kernel writes, one per tile: partial[tile][word][row or
/// column].
struct TilePartial {
  ir::ValueId reduction;  // of eliminate(program)
  int array;  // equal for reductions that share partials (sum and mean; mean and variance)
};

/// What is left after a fused kernel has written the tile outputs and the partials: joins them and
/// makes the other outputs. work[i] is partial array i, for each of them, then arrays of its own.
Pointwise generate_finish(const Instance& instance, const std::string& name,
                          const std::vector<TilePartial>& partials);

/// Whether an output is stored by the fused kernel itself.
bool stored_in_tile(const ir::Program& program, const ir::Output& output);

}  // namespace coda::cuda

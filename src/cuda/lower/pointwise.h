// SPDX-License-Identifier: Apache-2.0
// A program as passes of stand-alone kernels, for any shape, stride, group and storage type.
//
// Every value of the tile is a function of (row, column), so a thread can evaluate it anywhere;
// split, join and swap only change the column. Each reduction is a pass of its own that leaves its
// results in the workspace; the outputs follow in element passes. Accumulators are read as float32
// matrices: this is the second half of the unfused path, and the whole of a program without a
// product.
#pragma once

#include <string>
#include <vector>

#include "call/call.h"

namespace coda::cuda {

inline constexpr int kRowChunk = 256;
inline constexpr int kPassThreads = 256;

/// Which columns j of what is reduced make the result of column `key`.
enum class Walk : unsigned char {
  one,     // key
  all,     // every one; of tiles' partials that are one per column, every row
  group,   // those of group `key`
  repeat,  // key, key + P, ...
};

/// A kernel, launched with any grid of kPassThreads threads a block, in the order of the passes.
struct PointwisePass {
  enum class Kind : unsigned char {
    reduce,    // evaluates what is reduced: finished results, or a state for each part of the rows
    join,      // joins those states
    tiles,     // joins what a fused kernel left for each tile
    elements,  // outputs over the same dimensions
  } kind;
  std::string kernel;  // its name
  ir::Dims items;      // how many work items: rows (1 without) times columns
  bool warp_per_item;  // otherwise one thread
  bool row_chunks;     // items count chunks of kRowChunk rows instead of rows
  ir::ValueId reduction = -1;
  Walk walk = Walk::one;
  int results = -1, states = -1;  // arrays of the workspace
  std::vector<int> outputs = {};
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

struct LoweredPointwise {
  ir::Program program;  // eliminate(); what ids refer to
  std::vector<PointwisePass> passes;
  std::vector<PointwiseWork> work;
  /// Of reductions, by value: the array of its results, or, where it is joined by whoever reads it,
  /// of the tiles' partials.
  std::vector<int> arrays;
  std::vector<bool> joined_by_reader;
};

/// A reduction whose partials a fused kernel writes, one per tile: partial[tile][word][row or
/// column].
struct TilePartial {
  ir::ValueId reduction;  // of eliminate(program)
  int array;  // equal for reductions that share partials (sum and mean; mean and variance)
};

/// The whole program, in kernels NAME_0, NAME_1, ...
LoweredPointwise lower_pointwise(const Instance& instance, const std::string& name);

/// What is left after a fused kernel has written the tile outputs and the partials: joins them and
/// makes the other outputs. work[i] is partial array i, for each of them, then arrays of its own.
LoweredPointwise lower_finish(const Instance& instance, const std::string& name,
                              const std::vector<TilePartial>& partials);

/// The columns that a pass reads for a reduction.
ir::Columns reduced_columns(const ir::Program& program, const ir::Reduce& reduce);

/// Whether an output is stored by the fused kernel itself.
bool stored_in_tile(const ir::Program& program, const ir::Output& output);

}  // namespace coda::cuda

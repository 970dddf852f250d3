// SPDX-License-Identifier: Apache-2.0
//
// The contract of one kernel of the mainloop: its configuration, the table of its ports, and what a
// launch passes. One text for the host and for the kernel.
#pragma once
#include "types.h"

namespace coda::device {

enum class Mode { pingpong, cooperative };
enum class Major { k, mn };
enum class Width { half, full, twice };
enum class Reduce { sum, max, min, logsumexp, moments, argmax };
// Which operand's parts a tile port is cut by: A's (rows) or B's (cols).
enum class Seams { none, rows, cols };
enum class Kind {
  tile_in,     // [m, width of n] through TMA
  tile_out,    // [m, width of n] through TMA
  row_vector,  // [n]: one value per column
  col_vector,  // [m]: one value per row
  scalar,      // one value in memory
  number,      // one float32 passed by value
  keep_m,      // reduction over the tile's columns: partial[tile_n][word][m]
  keep_n,      // reduction over the tile's rows: partial[tile_m][n]
  group_fold,  // reduction over groups of a row's columns: folded in pass 0, used in pass 1
  group_in,    // [m, n:group] f32, read straight from memory
  group_out,   // [m, n:group] f32, written straight to memory
};

inline constexpr int kBlockK = 64;
inline constexpr int kRowBytes = 128;  // of an operand row or column in a stage
inline constexpr int kSmemBudget = 232448;
inline constexpr int kMaxStages = 8;
inline constexpr int kMaxParts = 4;
inline constexpr int kMaxSegments = 4;
inline constexpr int kConsumerWarps = 8;
inline constexpr int kThreads = 384;
inline constexpr int kSlotAlign = 1024;
inline constexpr int kNarrow = -1;  // Config::pair

struct Config {
  Mode mode = Mode::pingpong;
  // Of a warpgroup (pingpong) or of the CTA (cooperative); tile_n covers all accumulators.
  int tile_m = 128, tile_n = 192;
  int cluster_m = 1, cluster_n = 1;  // (2, 1): two CTAs share B; (1, 2): they share A
  Type element = Type::bf16;         // bf16 or f16
  Major a_major = Major::k, b_major = Major::k;
  int accumulators = 1;                // 2: same A, two B's, each tile_n / 2 columns
  int segments = 1;                    // products summed along K
  int a_parts = 1, b_parts = 1;        // tensors side by side along M and along N
  int a_box_rows = 0, b_box_rows = 0;  // Major::k box height; 0: as high as the stage allows
  int chunk_cols = 64;                 // 32, 64 or 128
  int pair = 0;    // columns that meet: 0 none, 1 neighbours, a multiple of 8: j and j + pair;
                   // kNarrow: none, in strips of 8 columns
  int passes = 1;  // 2: over a chunk once to fold groups, then again to use them
  int stages = 0;  // operand ring; 0: what fits
  int load_stages = 2, store_stages = 2;
  bool split_k = false;
  bool mask_rows = true, mask_cols = true;  // false: M (N) is a multiple of the tile
  bool ragged_cols = true;                  // false: N is a multiple of chunk_cols
  bool pdl = false;
  bool delays = false;  // debug: hashed sleeps in every role
};

struct Port {
  Kind kind;
  Width width = Width::full;
  Type type = Type::f32;
  Reduce reduce = Reduce::sum;
  Seams seams = Seams::none;
  int period = 0;  // vectors: index modulo this (0: none)
  int group = 1;   // vectors and groups: one value per so many columns or rows
};

// ---- what a launch passes ----------------------------------------------------------------------

struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

struct PortArg {
  void* data;  // vectors, scalars, partials, groups
  i64 ld;      // stride between partials, or between rows of a group tensor, in elements
  int count;   // vectors: how many partials are summed (1: a plain vector)
  float number;
};

struct Geometry {
  int m, n;                    // n of one accumulator
  int clusters_m, clusters_n;  // tiles in units of a cluster, rounded up
  int group;                   // clusters of the slow axis per raster group
  int along_n;                 // 0: groups of rows, walked down M first; 1: groups of columns
  int splits, blocks_per_split, total_blocks;
  int split_rows;  // rows between two splits in every tile output
  int k_blocks[kMaxSegments];
  int a_begin[kMaxParts], b_begin[kMaxParts];
};

template <int Maps, int Ports>
struct Params {
  TensorMap maps[Maps];
  PortArg ports[Ports];
  Geometry geometry;
};

}  // namespace coda::device

// SPDX-License-Identifier: Apache-2.0
// A program lowered for one call: instructions over slots, in two sections.
//
// The tile section runs once per tile and makes all values that lack rows or columns: numbers, row
// vectors over the tile's columns, column values over its rows. The block section runs once per
// block of a few rows and makes the values with both, in slots that liveness reuses and that stay
// in the first-level cache. Broadcasting is explicit: an operand is a vector along the columns or
// one element a row, and groups and periods are expanded by instructions of their own.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "ir/program.h"

namespace coda::cpu {

/// ir::Dims in the numbers of a call.
struct Extent {
  using Kind = ir::Columns::Kind;
  bool rows = false;
  Kind kind = Kind::none;
  int halves = 2;    // width in halves of N: 1, 2 or 4
  int64_t size = 0;  // of a group or period
  bool operator==(const Extent&) const = default;

  bool in_block() const { return rows && kind != Kind::none; }
  /// Whether the columns are those of the tile: a number of them per tile, at a place of their own.
  bool tile_columns() const { return kind == Kind::all || kind == Kind::group; }
  /// Columns of a stretch of n columns of the output.
  int64_t columns(int64_t n) const {
    switch (kind) {
      case Kind::none:
        return 1;
      case Kind::all:
        return n * halves / 2;
      case Kind::group:
        return n * halves / 2 / size;
      case Kind::repeat:
        return size;
    }
    return 0;
  }
  /// Index of the first column of a tile that starts at column n0 of the output.
  int64_t first(int64_t n0) const { return tile_columns() ? columns(n0) : 0; }
};

enum class Arena : unsigned char { tile, block, accumulator };

struct Instruction {
  enum class Kind : unsigned char {
    constant,
    index,
    load,         // input, or completed reduction
    accumulator,  // no work: the value lies in the tile's accumulator
    pointwise,    // kernel over elements: rows may be joined
    columnwise,   // kernel that minds columns: expansions, split, join, swap
    group_reduce,
    store,
    reduce,
  };
  Kind kind;
  Lane lane = Lane::f32;            // of the result; of the value stored or reduced
  Extent extent;                    // of the result; of the output stored
  int arguments[3] = {-1, -1, -1};  // instructions
  int argument_count = 0;
  BlockKernel kernel = nullptr;
  int64_t half = 0, group = 0;
  bool period = false;      // expansion whose phase depends on the tile
  bool along_rows = false;  // index
  float real = 0;
  int64_t integer = 0;
  int source = -1;         // input, accumulator, output, or reduction
  bool completed = false;  // load from a completed reduction
  Family family{};
  Finish finish{};

  Arena arena = Arena::tile;  // where the result lies
  size_t offset = 0;
  size_t scratch = 0;  // group_reduce: its states, in the block arena
};

/// A reduction that needs the whole matrix: states of each tile in the workspace, then combined.
struct Reduction {
  Family family;
  bool integer;
  int argument;       // instruction of the main tape
  Extent from, kept;  // of the argument; what is really kept of it
  enum class Columns : unsigned char { all, each, group, period } columns;  // where columns go
  int64_t elements;                                                         // states kept in all
  int64_t parts;          // tiles that add to one state
  int64_t parts_columns;  // of these, side by side
  int64_t width;          // columns of the argument in all
  size_t offset = 0;      // of the states in the workspace
};

/// What programs see of a reduction.
struct Completed {
  int reduction;
  Finish finish;
  double terms;  // elements reduced to one
  Lane lane;
  size_t offset = 0;  // in the workspace
};

struct Tape {
  std::vector<Instruction> code;
  std::vector<int> tile_section, block_section;
  size_t tile_bytes = 0, block_bytes = 0;
  int64_t block_rows = 1;
  bool late_stores = false;  // outputs may lie on inputs: all stores come after all loads
};

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
// The tiles of a call. The grid depends on the program and the shape alone, never on the number of
// threads, since partial reductions are kept per tile. It has at least one tile, which may be
// empty: values that lack rows or columns are reduced even where no element of the matrix exists.
#pragma once

#include <cstdint>
#include <span>

#include "ir/program.h"

namespace coda::cpu {

struct Tile {
  int64_t row, rows;        // first row, count
  int64_t column, columns;  // of the output's N
  int64_t tile_row, tile_column;
};

struct Grid {
  int64_t m, n;
  int64_t tile_m, tile_n;    // of a full tile
  int64_t tiles_m, tiles_n;  // at least 1

  Tile tile(int64_t row, int64_t column) const;
};

/// `symbols`: values of the call. Tile widths are a multiple of every group and pair.
Grid make_grid(const ir::Program& program, std::span<const int64_t> symbols);

}  // namespace coda::cpu

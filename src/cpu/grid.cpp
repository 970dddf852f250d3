// SPDX-License-Identifier: Apache-2.0
#include "cpu/grid.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace coda::cpu {
namespace {

constexpr int64_t kTileRows = 256, kTileColumns = 256;
constexpr int64_t kSplitRows = 512;  // below it tiles have half the rows, to give more of them
constexpr int64_t kTileElements = 1 << 16;  // where groups make tiles wider, they have fewer rows

/// The smallest number of output columns that tiles must be a multiple of.
class Step {
 public:
  explicit Step(std::span<const int64_t> symbols) : symbols_(symbols) {}

  /// Pairs or groups of `size` columns in a value of width `width`.
  void require(const ir::Size& width, const ir::Size& size) {
    const ir::Size columns = size * ir::symbol_size(ir::kSymbolN) / width;  // may be a half
    const int64_t doubled =
        evaluate(columns * ir::constant_size(2), symbols_, "a group of columns");
    step_ = std::lcm(step_, doubled % 2 == 0 ? doubled / 2 : doubled);
  }
  void require(const ir::Dims& dims) {
    if (dims.columns.kind == ir::Columns::Kind::none) return;
    require(dims.columns.width, dims.columns.kind == ir::Columns::Kind::group
                                    ? dims.columns.size
                                    : ir::constant_size(1));
  }
  int64_t value() const { return step_; }

 private:
  std::span<const int64_t> symbols_;
  int64_t step_ = 1;
};

int64_t column_step(const ir::Program& program, std::span<const int64_t> symbols) {
  Step step(symbols);
  const ir::Size two = ir::constant_size(2);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    step.require(program.info[i].dims);
    const auto width = [&](int id) { return program.info[id].dims.columns.width; };
    std::visit(ir::Overloaded{[](const auto&) {},
                              [&](const ir::Split& n) { step.require(width(n.arg), n.half * two); },
                              [&](const ir::Join& n) {
                                step.require(width(static_cast<int>(i)), n.half * two);
                              },
                              [&](const ir::Swap& n) { step.require(width(n.arg), n.group); },
                              [&](const ir::Reduce& n) { step.require(n.kept); }},
               program.nodes[i]);
  }
  for (const ir::Output& output : program.outputs) step.require(output.dims);
  return step.value();
}

}  // namespace

Tile Grid::tile(int64_t row, int64_t column) const {
  const int64_t r = row * tile_m, c = column * tile_n;
  return {r, std::min(tile_m, m - r), c, std::min(tile_n, n - c), row, column};
}

Grid make_grid(const ir::Program& program, std::span<const int64_t> symbols) {
  Grid grid{};
  grid.m = symbols[ir::kSymbolM], grid.n = symbols[ir::kSymbolN];
  const int64_t step = grid.n == 0 ? 1 : column_step(program, symbols);
  grid.tile_n =
      std::min(step * std::max<int64_t>(1, kTileColumns / step), std::max<int64_t>(grid.n, 1));
  const int64_t rows = grid.m < kSplitRows ? kTileRows / 2 : kTileRows;
  grid.tile_m = std::clamp<int64_t>(kTileElements / grid.tile_n, 4, rows);
  grid.tile_m = std::min(grid.tile_m, std::max<int64_t>(grid.m, 1));
  grid.tiles_m = std::max<int64_t>(1, ceil_divide(grid.m, grid.tile_m));
  grid.tiles_n = std::max<int64_t>(1, ceil_divide(grid.n, grid.tile_n));
  return grid;
}

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
#include "cpu/products.h"

#include <algorithm>

#include "base/checked.h"
#include "cpu/runner.h"

namespace coda::cpu {
namespace {

constexpr int64_t kGroupTiles = 4;
constexpr int64_t kGroupBytes = 8 << 20;  // of widened panels of A
constexpr size_t kAlign = 64;

size_t panel_bytes(int64_t rows, int64_t k) {
  return (static_cast<size_t>(rows) * static_cast<size_t>(k) * sizeof(float) + kAlign - 1) /
         kAlign * kAlign;
}

/// Whether the mainloop can walk a view: one unit stride, the other beyond it.
bool walkable(const View& v, int64_t rows, int64_t k) {
  return (v.column_stride == 1 && v.row_stride >= k) ||
         (v.row_stride == 1 && v.column_stride >= rows);
}

/// Whether every tile can be taken as it lies: seams fall between tiles.
bool is_direct(const Binding& binding, int64_t k, int64_t tile) {
  for (const Segment& s : binding.segments) {
    if (!walkable(s.view, s.end - s.begin, k)) return false;
    if (s.begin % tile != 0) return false;
  }
  return true;
}

bool same_memory(const Binding& a, const Binding& b) {
  if (a.segments.size() != b.segments.size()) return false;
  for (size_t i = 0; i < a.segments.size(); ++i) {
    const Segment &s = a.segments[i], &t = b.segments[i];
    if (s.begin != t.begin || s.end != t.end || s.view.data != t.view.data ||
        s.view.dtype != t.view.dtype || s.view.row_stride != t.view.row_stride ||
        s.view.column_stride != t.view.column_stride)
      return false;
  }
  return true;
}

/// The one type of all segments of both sides, if they have one.
bool one_type(const Product& p) {
  const DType type = p.a.segments[0].view.dtype;
  const auto same = [&](const Segment& s) { return s.view.dtype == type; };
  return std::all_of(p.a.segments.begin(), p.a.segments.end(), same) &&
         std::all_of(p.b.segments.begin(), p.b.segments.end(), same);
}

bool all_f32(const Binding& binding) {
  return std::all_of(binding.segments.begin(), binding.segments.end(),
                     [](const Segment& s) { return s.view.dtype == DType::f32; });
}

Panel direct_panel(const Binding& binding, int64_t row) {
  const Segment* segment = &binding.segments[0];
  for (const Segment& s : binding.segments)
    if (s.begin <= row && row < s.end) segment = &s;
  const View& v = segment->view;
  return {v.data + (row - segment->begin) * v.row_stride * static_cast<int64_t>(size_of(v.dtype)),
          v.row_stride, v.column_stride, v.dtype};
}

}  // namespace

Groups make_groups(const BoundCall& call, const Grid& grid, int threads) {
  int64_t depth = 1;
  for (const auto& products : call.products)
    for (const Product& product : products) depth += product.k;
  const int64_t fits =
      std::max<int64_t>(1, kGroupBytes / (grid.tile_m * depth * int64_t{sizeof(float)}));
  int64_t row_tiles = std::min({kGroupTiles, fits, grid.tiles_m});
  while (row_tiles > 1 &&
         ceil_divide(grid.tiles_m, row_tiles) * grid.tiles_n < 4 * int64_t{threads})
    --row_tiles;
  if (threads == 1) row_tiles = std::min({kGroupTiles, fits, grid.tiles_m});
  return {row_tiles, ceil_divide(grid.tiles_m, row_tiles)};
}

ProductPlan::ProductPlan(const BoundCall& call, const Grid& grid, const Groups& groups,
                         const Mainloop& mainloop) {
  if (grid.m == 0 || grid.n == 0) return;
  for (size_t input = 0; input < call.products.size(); ++input) {
    for (const Product& product : call.products[input]) {
      if (product.k == 0) continue;
      const bool a_direct = is_direct(product.a, product.k, grid.tile_m);
      const bool b_direct = is_direct(product.b, product.k, grid.tile_n);
      const bool native = a_direct && b_direct && one_type(product) &&
                          mainloop.takes(product.a.segments[0].view.dtype);
      const auto operand = [&](const Binding& binding, bool direct) {
        const View& v = binding.segments[0].view;
        const bool turned =
            binding.segments.size() == 1 && v.row_stride == 1 && v.column_stride != 1;
        return Operand{&binding, native || (direct && all_f32(binding)), turned, bytes_};
      };
      Term term{static_cast<int>(input), product.k, operand(product.a, a_direct), {}, -1};
      for (size_t t = 0; t < terms_.size(); ++t)
        if (terms_[t].same_a < 0 && terms_[t].k == term.k && terms_[t].a.direct == term.a.direct &&
            same_memory(*terms_[t].a.binding, product.a))
          term.same_a = static_cast<int>(t);
      if (!term.a.direct)  // with or without sharing: sizes depend on shapes alone
        bytes_ += static_cast<size_t>(groups.row_tiles) * panel_bytes(grid.tile_m, product.k);
      term.b = operand(product.b, b_direct);
      if (!term.b.direct) bytes_ += panel_bytes(grid.tile_n, product.k);
      terms_.push_back(term);
    }
  }
}

Products::Products(const ProductPlan& plan, const Grid& grid, const Groups& groups,
                   const Kernels& kernels, const Mainloop& mainloop, std::byte* panels)
    : plan_(plan),
      grid_(grid),
      groups_(groups),
      kernels_(kernels),
      session_(mainloop.session()),
      panels_(panels),
      column_of_b_(plan.terms().size(), -1),
      rows_of_a_(plan.terms().size(),
                 std::vector<int64_t>(static_cast<size_t>(groups.row_tiles), -1)),
      held_a_(plan.terms().size(), std::vector<Panel>(static_cast<size_t>(groups.row_tiles))),
      held_b_(plan.terms().size()) {}

Panel Products::widen(const ProductPlan::Operand& operand, int64_t row, int64_t rows, int64_t k,
                      std::byte* to) const {
  if (!operand.turned) {
    load_range(*operand.binding, kernels_, row, rows, 0, k, to);
    return {to, k, 1, DType::f32};
  }
  const View& v = operand.binding->segments[0].view;
  const size_t skipped = static_cast<size_t>(row) * size_of(v.dtype);
  kernels_.load[static_cast<int>(v.dtype)](
      {k, rows, v.data + skipped, v.column_stride, v.row_stride, to, rows, 1});
  return {to, 1, rows, DType::f32};
}

Panel Products::panel_a(size_t term, const Tile& tile) {
  const ProductPlan::Term& t = plan_.terms()[term];
  if (t.same_a >= 0) return panel_a(static_cast<size_t>(t.same_a), tile);
  if (t.a.direct) return direct_panel(*t.a.binding, tile.row);
  const auto place = static_cast<size_t>(tile.tile_row % groups_.row_tiles);
  if (rows_of_a_[term][place] != tile.tile_row) {
    std::byte* to = panels_ + t.a.offset + place * panel_bytes(grid_.tile_m, t.k);
    held_a_[term][place] = widen(t.a, tile.row, tile.rows, t.k, to);
    rows_of_a_[term][place] = tile.tile_row;
  }
  return held_a_[term][place];
}

Panel Products::panel_b(size_t term, const Tile& tile) {
  const ProductPlan::Term& t = plan_.terms()[term];
  if (t.b.direct) return direct_panel(*t.b.binding, tile.column);
  if (column_of_b_[term] != tile.tile_column) {
    held_b_[term] = widen(t.b, tile.column, tile.columns, t.k, panels_ + t.b.offset);
    column_of_b_[term] = tile.tile_column;
  }
  return held_b_[term];
}

void Products::compute(int input, const Tile& tile, float* to, int64_t stride) {
  if (tile.rows == 0 || tile.columns == 0) return;
  bool accumulate = false;
  for (size_t term = 0; term < plan_.terms().size(); ++term) {
    const ProductPlan::Term& t = plan_.terms()[term];
    if (t.accumulator != input) continue;
    session_->multiply(tile.rows, tile.columns, t.k, panel_a(term, tile), panel_b(term, tile), to,
                       stride, accumulate);
    accumulate = true;
  }
  if (accumulate) return;
  for (int64_t i = 0; i < tile.rows; ++i) std::fill_n(to + i * stride, tile.columns, 0.0f);
}

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
//
// The plan of one kernel: all resource arithmetic over its configuration and port table.
//
// The kernel reads it through constexpr; the host reads the same functions as ordinary C++20 (no
// CUDA needed) to choose a configuration, to make tensor maps and to fill the parameters, so no
// rule exists twice.
//
// Operands. C[m, n] = sum over segments of A[m, k] B[n, k]. A stage holds 64 of K: A rows first,
// then B rows (the accumulators' B rows one after the other), 128-byte swizzled:
//   Major::k   rows of 64 k-values (128 B); 8 rows are one swizzle atom of 1024 B
//   Major::mn  panels of 64 m- or n-values; a panel is 64 k-rows of 128 B (8192 B)
// Both take 128 B per row or column of the tile, so every offset is the same for both.
//
// Boxes. One lane of the producer issues one box, always the same one of the stage. A Major::k box
// is `box_rows` rows of 64 k; a Major::mn box is 64 columns of 64 k-rows. In a 2-CTA cluster the
// shared operand is loaded half by each CTA and multicast: half of the rows (Major::k) or of the
// k-rows (Major::mn). An operand may be several tensors side by side ("parts"); a box never crosses
// a seam, so seams are multiples of the box height (64 for Major::mn), and TMA clips at the end.
//
// Epilogue. A warp owns 16 rows of each 64-row block and walks them in chunks of `chunk_cols`
// columns. A tile port's share of a chunk is 16 rows, cut into panels of at most 128 B a row: one
// TMA box, swizzled by its own width (128, 64 or 32 B). All tile inputs of a chunk share one ring
// slot and one barrier, all outputs one slot and one bulk group. The program runs on strips, to
// hold few values at a time: a list of 8-column blocks, 16 columns in all, or, with pairs, 8 (pair
// <= 8) or 16 columns of half width and all that they pair with.
#pragma once
#include "config.h"

namespace coda::device {

// ---- small arithmetic --------------------------------------------------------------------------

CODA_BOTH constexpr int word_bytes(Type t) { return t == Type::i64 ? 8 : 4; }
CODA_BOTH constexpr int min_of(int a, int b) { return a < b ? a : b; }
CODA_BOTH constexpr int round_up(int x, int to) { return (x + to - 1) / to * to; }
CODA_BOTH constexpr int widen(Width w, int cols) {
  return w == Width::half ? cols / 2 : w == Width::twice ? cols * 2 : cols;
}
CODA_BOTH constexpr bool is_tile(const Port& p) {
  return p.kind == Kind::tile_in || p.kind == Kind::tile_out;
}
CODA_BOTH constexpr bool is_vector(const Port& p) {
  return p.kind == Kind::row_vector || p.kind == Kind::col_vector;
}
// Words of one partial of a reduction.
CODA_BOTH constexpr int reduce_words(Reduce r) {
  return r == Reduce::moments ? 3 : r == Reduce::logsumexp || r == Reduce::argmax ? 2 : 1;
}

// One tile port's share of a chunk.
CODA_BOTH constexpr int chunk_row_bytes(const Port& p, int chunk_cols) {
  return widen(p.width, chunk_cols) * type_bytes(p.type);
}
CODA_BOTH constexpr int panel_bytes(const Port& p, int chunk_cols) {
  return min_of(chunk_row_bytes(p, chunk_cols), 128);
}
CODA_BOTH constexpr int panel_cols(const Port& p, int chunk_cols) {
  return panel_bytes(p, chunk_cols) / type_bytes(p.type);
}
CODA_BOTH constexpr int panels(const Port& p, int chunk_cols) {
  return chunk_row_bytes(p, chunk_cols) / panel_bytes(p, chunk_cols);
}
CODA_BOTH constexpr int chunk_bytes(const Port& p, int chunk_cols) {
  return 16 * chunk_row_bytes(p, chunk_cols);
}

// ---- the plan ----------------------------------------------------------------------------------

// 8-column blocks of a strip at a width. With pairs, half width is the narrowest: one block, or two
// where 16 columns stay together. A narrow strip is one block: half of the live values.
CODA_BOTH constexpr int strip_blocks(int pair, Width w) {
  const int narrow = pair == 0 || pair > 8 ? 2 : 1;
  const int level = pair <= 0 || w == Width::half ? 0 : w == Width::full ? 1 : 2;
  return narrow << level;
}
CODA_BOTH constexpr int strips(const Config& c) {
  return c.chunk_cols / 8 / strip_blocks(c.pair, Width::full);
}
// Position in the chunk, in blocks, of a strip's block. The blocks of a wider width are those of
// the narrower one's first columns, then those of its second columns; neighbours lie side by side.
CODA_BOTH constexpr int strip_block(int pair, Width w, int strip, int block) {
  const int blocks = strip_blocks(pair, w);
  if (pair <= 1) return strip * blocks + block;
  const int narrow = strip_blocks(pair, Width::half), h = pair / 8;
  int at = strip * narrow + block % narrow;
  for (int from = narrow; from < blocks; from *= 2)
    at = at / h * 2 * h + at % h + (block / from % 2 ? h : 0);
  return at;
}

struct Plan {
  int group_rows;     // rows of one consumer warpgroup
  int row_blocks;     // 64-row blocks of one consumer warpgroup
  int tile_cols;      // columns of one accumulator
  int chunks;         // chunks along tile_cols
  int acc_registers;  // per thread
  int stage_bytes, a_bytes, stages;
  int a_share, b_share;                          // 2: loaded half by each CTA of the cluster
  int a_box_rows, b_box_rows, a_boxes, b_boxes;  // boxes: of this CTA
  int empty_arrivals;                            // that free a stage
  int load_slot, load_tx, store_slot, vector_slot, columns_bytes;
  int loads_at, stores_at, vectors_at, columns_at, barriers_at, smem_bytes;
  int consumer_registers, producer_registers;
  int a_maps, operand_maps, maps;
  bool has_loads, has_stores, has_vectors, has_columns;
};

CODA_BOTH constexpr int port_maps(const Config& c, const Port& p) {
  return !is_tile(p)              ? 0
         : p.seams == Seams::rows ? c.a_parts
         : p.seams == Seams::cols ? c.b_parts
                                  : 1;
}
// The first tensor map of port `index`.
CODA_BOTH constexpr int port_map(const Config& c, const Port* ports, int index) {
  int map = c.segments * (c.a_parts + c.accumulators * c.b_parts);
  for (int i = 0; i < index; ++i) map += port_maps(c, ports[i]);
  return map;
}
// How many ports of the same kind come before; how many there are.
CODA_BOTH constexpr int port_rank(const Port* ports, int index) {
  int rank = 0;
  for (int i = 0; i < index; ++i) rank += ports[i].kind == ports[index].kind;
  return rank;
}
CODA_BOTH constexpr int ports_of(const Port* ports, int count, Kind kind) {
  int n = 0;
  for (int i = 0; i < count; ++i) n += ports[i].kind == kind;
  return n;
}
// Shared memory of a port. Tiles: its share of a ring slot, on a swizzle atom. Vectors: one word
// (two for i64) per column or row of the tile, already converted. Column totals: a float per warp
// and column.
CODA_BOTH constexpr int vector_entries(const Config& c, const Port& p) {
  return p.kind == Kind::row_vector ? widen(p.width, c.tile_n / c.accumulators) : c.tile_m;
}
CODA_BOTH constexpr int port_bytes(const Config& c, const Port& p) {
  return is_tile(p)               ? round_up(chunk_bytes(p, c.chunk_cols), kSlotAlign)
         : is_vector(p)           ? vector_entries(c, p) * word_bytes(p.type)
         : p.kind == Kind::keep_n ? kConsumerWarps * widen(p.width, c.tile_n / c.accumulators) * 4
                                  : 0;
}
// Bytes of the ports before `index` that share a region with `kind`: an input slot, an output slot,
// a tile's vectors, or the column totals.
CODA_BOTH constexpr int port_offset(const Config& c, const Port* ports, int index, Kind kind) {
  const bool vector = is_vector({kind});
  int at = 0;
  for (int i = 0; i < index; ++i)
    if (vector ? is_vector(ports[i]) : ports[i].kind == kind) at += port_bytes(c, ports[i]);
  return at;
}

CODA_BOTH constexpr Plan make_plan(const Config& c, const Port* ports, int count) {
  Plan p{};
  const bool pingpong = c.mode == Mode::pingpong;
  p.group_rows = pingpong ? c.tile_m : c.tile_m / 2;
  p.row_blocks = p.group_rows / 64;
  p.tile_cols = c.tile_n / c.accumulators;
  p.chunks = p.tile_cols / c.chunk_cols;
  p.acc_registers = p.group_rows * c.tile_n / 128;
  p.a_bytes = c.tile_m * kRowBytes;
  p.stage_bytes = (c.tile_m + c.tile_n) * kRowBytes;
  p.a_share = c.cluster_n;
  p.b_share = c.cluster_m;
  p.a_box_rows = c.a_box_rows ? c.a_box_rows : c.tile_m / p.a_share;
  p.b_box_rows = c.b_box_rows ? c.b_box_rows : min_of(p.tile_cols, c.tile_n / p.b_share);
  p.a_boxes = c.a_major == Major::mn ? c.tile_m / 64 : c.tile_m / p.a_share / p.a_box_rows;
  p.b_boxes = c.b_major == Major::mn ? c.tile_n / 64 : c.tile_n / p.b_share / p.b_box_rows;
  p.empty_arrivals = (pingpong ? 1 : 2) * c.cluster_m * c.cluster_n;
  p.consumer_registers = p.acc_registers > 160 ? 240 : 232;
  p.producer_registers = p.acc_registers > 160 ? 24 : 40;
  p.a_maps = c.segments * c.a_parts;
  p.operand_maps = port_map(c, ports, 0);
  p.maps = port_map(c, ports, count);

  p.load_slot = port_offset(c, ports, count, Kind::tile_in);
  p.store_slot = port_offset(c, ports, count, Kind::tile_out);
  p.vector_slot = round_up(port_offset(c, ports, count, Kind::row_vector), 16);
  p.columns_bytes = port_offset(c, ports, count, Kind::keep_n);
  for (int i = 0; i < count; ++i)
    if (ports[i].kind == Kind::tile_in) p.load_tx += chunk_bytes(ports[i], c.chunk_cols);
  p.has_loads = p.load_slot > 0;
  p.has_stores = p.store_slot > 0;
  p.has_vectors = p.vector_slot > 0;
  p.has_columns = p.columns_bytes > 0;

  const int loads = kConsumerWarps * c.load_stages * p.load_slot;
  const int stores = kConsumerWarps * c.store_stages * p.store_slot;
  const int barriers = 8 * (2 * kMaxStages + 4 + 2 * kConsumerWarps * c.load_stages);
  const int fixed = loads + stores + 2 * p.vector_slot + p.columns_bytes + barriers;
  const int fit = min_of((kSmemBudget - fixed) / p.stage_bytes, kMaxStages);
  p.stages = c.stages ? c.stages : fit;
  p.loads_at = p.stages * p.stage_bytes;
  p.stores_at = p.loads_at + loads;
  p.vectors_at = p.stores_at + stores;
  p.columns_at = p.vectors_at + 2 * p.vector_slot;
  p.barriers_at = p.columns_at + p.columns_bytes;
  p.smem_bytes = p.barriers_at + barriers;
  return p;
}

// What a generated program type K gives: `config`, `ports` and `apply`.
template <class K>
struct Shape {
  static constexpr Config config = K::config;
  static constexpr int ports = static_cast<int>(sizeof(K::ports) / sizeof(Port));
  static constexpr Plan plan = make_plan(K::config, K::ports, ports);
  static constexpr int cluster = K::config.cluster_m * K::config.cluster_n;
  static constexpr bool pingpong = K::config.mode == Mode::pingpong;
  using Launch = Params<plan.maps, ports>;
};

}  // namespace coda::device

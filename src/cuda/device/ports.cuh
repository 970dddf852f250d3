// SPDX-License-Identifier: Apache-2.0
//
// What the producer warps bring for the epilogue: tile inputs and vectors.
//
// Tile inputs: every consumer warp has its own ring, whose slots follow the consumer's own chunk
// order across tiles. The producer runs ahead as far as the ring goes, so a tile's first chunks
// arrive during its mainloop. Two warps serve one warpgroup each, so that one group's full ring
// never holds up the other's. Vectors: one warp reads a tile's row and column vectors, converts
// them to float (or keeps integers), sums partials in a fixed order, and leaves one word (two for
// i64) per column or row in shared memory. Two slots: the next tile's vectors arrive while this
// tile's are in use.
#pragma once
#include "mainloop.cuh"
#include "matrix.cuh"

namespace coda::device {

template <class K, int P>
struct PortOf {
  static constexpr Config config = K::config;
  static constexpr int index = P;
  static constexpr Port port = K::ports[P];
  static constexpr int rank = port_rank(K::ports, P);
  static constexpr int offset = port_offset(config, K::ports, P, port.kind);
  static constexpr int first_map = port_map(config, K::ports, P);
  static constexpr int panel_count = panels(port, config.chunk_cols);
  static constexpr int panel_wide = panel_cols(port, config.chunk_cols);
  static constexpr int panel_row = panel_bytes(port, config.chunk_cols);

  // Calls f(map, x, y, address in the slot) for every panel of the chunk at (row, col), col in
  // columns of full width.
  template <class F>
  static CODA_DEVICE void for_panels(const typename Shape<K>::Launch& p, int row, int col, u32 slot,
                                     F f) {
    col = widen(port.width, col);
    const TensorMap* map = p.maps + first_map;
    if constexpr (port.seams == Seams::rows)
      map += part_of<config.a_parts>(p.geometry.a_begin, row);
    if constexpr (port.seams == Seams::cols)
      map += part_of<config.b_parts>(p.geometry.b_begin, col);
#pragma unroll
    for (int n = 0; n < panel_count; ++n)
      f(map, col + n * panel_wide, row, slot + offset + n * (16 * panel_row));
  }
};

// Calls f(PortOf) for the ports of one kind (or of two), in the order of the table.
template <class K, Kind Wanted, Kind Or = Wanted, int P = 0, class F>
CODA_DEVICE void for_ports(F f) {
  if constexpr (P < Shape<K>::ports) {
    if constexpr (K::ports[P].kind == Wanted || K::ports[P].kind == Or) f(PortOf<K, P>{});
    for_ports<K, Wanted, Or, P + 1>(f);
  }
}

// One warp per consumer warpgroup, which serves the group's warps in turn. As for operands, one lane
// issues.
template <class K>
CODA_DEVICE void produce_tiles(const typename Shape<K>::Launch& p, u32 smem, u32 group) {
  constexpr Config c = K::config;
  constexpr Plan plan = Shape<K>::plan;
  const Barriers<K> barriers(smem);
  Cursor<c.load_stages> at;
  u32 turn = 0;
#pragma unroll 1
  for (u32 index = first_item<K>(); index < item_count(p.geometry);
       index += item_step<K>(), ++turn) {
    if (Shape<K>::pingpong && (turn & 1) != group) continue;
    const Item item = item_at<K>(p.geometry, index, cluster_rank<Shape<K>::cluster>());
    const int row_from =
        item.tile_m * c.tile_m + (Shape<K>::pingpong ? 0 : group * plan.group_rows);
    const int col_from = item.tile_n * plan.tile_cols;
#pragma unroll 1
    for (int chunk = 0; chunk < plan.row_blocks * plan.chunks; ++chunk) {
      delay<c.delays>(4 + group, index + chunk);
      const int row = row_from + chunk / plan.chunks * 64;
      const int col = col_from + chunk % plan.chunks * c.chunk_cols;
#pragma unroll 1
      for (int warp = 0; warp < 4; ++warp) {
        const u32 ring = group * 4 + warp;
        barrier_wait(barriers.load_empty(ring, at.slot), at.phase ^ 1);
        if (elect_one()) {
          const u32 full = barriers.load_full(ring, at.slot);
          const u32 slot = smem + plan.loads_at + (ring * c.load_stages + at.slot) * plan.load_slot;
          barrier_expect(full, plan.load_tx);
          for_ports<K, Kind::tile_in>([&](auto port) {
            port.for_panels(
                p, row + warp * 16, col, slot,
                [&](const TensorMap* map, int x, int y, u32 to) { tma_load(to, map, x, y, full); });
          });
        }
        __syncwarp();
      }
      at.advance();
    }
  }
}

// Element `at` summed over the partials, in their order; a few loads in flight, few registers.
template <Type T>
CODA_DEVICE float read_sum(const PortArg& arg, int at) {
  const char* from = static_cast<const char*>(arg.data) + static_cast<i64>(at) * type_bytes(T);
  const i64 stride = arg.ld * type_bytes(T);
  float sum = read_float<T>(from, 0);
  int left = arg.count - 1;
#pragma unroll 1
  for (; left >= 2; left -= 2) {
    const float x = read_float<T>(from += stride, 0), y = read_float<T>(from += stride, 0);
    sum = sum + x + y;
  }
  if (left > 0) sum += read_float<T>(from + stride, 0);
  return sum;
}

template <class K>
CODA_DEVICE void produce_vectors(const typename Shape<K>::Launch& p, u32 smem) {
  constexpr Config c = K::config;
  constexpr Plan plan = Shape<K>::plan;
  const Barriers<K> barriers(smem);
  u32 turn = 0;
#pragma unroll 1
  for (u32 index = first_item<K>(); index < item_count(p.geometry);
       index += item_step<K>(), ++turn) {
    const u32 slot = turn & 1;
    const Item item = item_at<K>(p.geometry, index, cluster_rank<Shape<K>::cluster>());
    delay<c.delays>(6, turn);
    barrier_wait(barriers.vector_empty(slot), (turn >> 1 & 1) ^ 1);
    for_ports<K, Kind::row_vector, Kind::col_vector>([&](auto vector) {
      constexpr Port port = vector.port;
      constexpr int entries = vector_entries(K::config, port);
      constexpr bool along_cols = port.kind == Kind::row_vector;
      const PortArg& arg = p.ports[vector.index];
      const int from = (along_cols ? item.tile_n : item.tile_m) * entries;
      const int limit = along_cols ? widen(port.width, p.geometry.n) : p.geometry.m;
      const u32 to = smem + plan.vectors_at + slot * plan.vector_slot + vector.offset;
#pragma unroll 1
      for (int e = lane_id_opaque(); e < entries; e += 32) {
        int at = from + e;
        const bool inside = at < limit;
        if constexpr (port.period > 0) at %= port.period;
        if constexpr (port.group > 1) at /= port.group;
        if constexpr (port.type == Type::i64)
          shared_store_i64(to + 8 * e, inside ? read_integer<port.type>(arg.data, at) : 0);
        else if constexpr (port.type == Type::i32)
          shared_store(to + 4 * e, as_float(inside ? read_integer<port.type>(arg.data, at) : 0));
        else
          shared_store(to + 4 * e, inside ? read_sum<port.type>(arg, at) : 0.f);
      }
    });
    barrier_arrive(barriers.vector_full(slot));
  }
}

}  // namespace coda::device

// SPDX-License-Identifier: Apache-2.0
//
// The mainloop: one warp brings operand stages, warpgroups multiply them.
//
// Every stage has two barriers. `full` completes when the producer has armed it and all bytes,
// those that the peer CTA multicasts included, have landed. `empty` completes when every warpgroup
// that reads the stage, in every CTA that a copy of it goes to, has finished reading. A producer
// waits for its own `empty` before it writes into both CTAs, so that barrier counts the consumers
// of both.
#pragma once
#include "cluster.cuh"
#include "schedule.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace coda::device {

// Addresses of the barriers, which follow each other in shared memory.
template <class K>
struct Barriers {
  static constexpr Plan plan = Shape<K>::plan;
  static constexpr int load_stages = K::config.load_stages;
  u32 base;
  CODA_DEVICE explicit Barriers(u32 smem) : base(smem + plan.barriers_at) {}
  CODA_DEVICE u32 full(u32 stage) const { return base + 8 * stage; }
  CODA_DEVICE u32 empty(u32 stage) const { return base + 8 * (kMaxStages + stage); }
  CODA_DEVICE u32 vector_full(u32 slot) const { return base + 8 * (2 * kMaxStages + slot); }
  CODA_DEVICE u32 vector_empty(u32 slot) const { return base + 8 * (2 * kMaxStages + 2 + slot); }
  CODA_DEVICE u32 load_full(u32 ring, u32 slot) const {
    return base + 8 * (2 * kMaxStages + 4 + ring * load_stages + slot);
  }
  CODA_DEVICE u32 load_empty(u32 ring, u32 slot) const {
    return load_full(ring, slot) + 8 * kConsumerWarps * load_stages;
  }
  CODA_DEVICE void init() const {
    for (int s = 0; s < plan.stages; ++s) {
      barrier_init(full(s), 1);
      barrier_init(empty(s), plan.empty_arrivals);
    }
    for (int s = 0; s < 2; ++s) {
      barrier_init(vector_full(s), 32);
      barrier_init(vector_empty(s), Shape<K>::pingpong ? 4 : 8);
    }
    for (int r = 0; r < kConsumerWarps; ++r)
      for (int s = 0; s < load_stages; ++s) {
        barrier_init(load_full(r, s), 1);
        barrier_init(load_empty(r, s), 1);
      }
  }
};

// Row `at` of parts that begin at begin[]: which part, and the row inside it.
template <int Parts>
CODA_DEVICE int part_of(const int (&begin)[kMaxParts], int& at) {
  int part = 0, from = 0;
#pragma unroll
  for (int i = 1; i < Parts; ++i)
    if (at >= begin[i]) {
      part = i;
      from = begin[i];
    }
  at -= from;
  return part;
}

// The producer warp. Lane i owns box i of the stage, A's boxes first: its place in the stage and in
// the tile never change, so the K loop only counts K up. The box is worked out anew for every item,
// from a lane number the compiler cannot see through: kept across items it would not fit 24
// registers.
template <class K>
CODA_DEVICE void produce_operands(const typename Shape<K>::Launch& p, u32 smem) {
  constexpr Config c = K::config;
  constexpr Plan plan = Shape<K>::plan;
  const Barriers<K> barriers(smem);
  Cursor<plan.stages> at;
#pragma unroll 1
  for (u32 index = first_item<K>(); index < item_count(p.geometry); index += item_step<K>()) {
    const u32 rank = cluster_rank<Shape<K>::cluster>();
    const Item item = item_at<K>(p.geometry, index, rank);
    const u32 lane = lane_id_opaque();
    const bool is_a = lane < plan.a_boxes;
    const bool active = lane < plan.a_boxes + plan.b_boxes;
    const bool k_first = is_a ? c.a_major == Major::k : c.b_major == Major::k;
    int row = is_a ? lane * (c.a_major == Major::k ? plan.a_box_rows : 64)
                   : (lane - plan.a_boxes) * (c.b_major == Major::k ? plan.b_box_rows : 64);
    int k_row = 0;  // of the box in the operand's tile, as is row
    if ((is_a ? plan.a_share : plan.b_share) == 2) {
      if (k_first)
        row += rank * ((is_a ? c.tile_m : c.tile_n) / 2);
      else
        k_row = rank * (kBlockK / 2);
    }
    // 64 panel columns take 8192 bytes just as 64 rows do.
    const u32 place = smem + (is_a ? 0 : plan.a_bytes) + (row + k_row) * kRowBytes;
    int mn =
        is_a ? row + item.tile_m * c.tile_m : row % plan.tile_cols + item.tile_n * plan.tile_cols;
    const int part = is_a ? part_of<c.a_parts>(p.geometry.a_begin, mn)
                          : part_of<c.b_parts>(p.geometry.b_begin, mn);
    u32 map = is_a ? part : plan.a_maps + row / plan.tile_cols * c.b_parts + part;
    int begin = item.first_block, left = item.blocks;
#pragma unroll 1
    for (int segment = 0; segment < c.segments; ++segment) {
      int end = p.geometry.k_blocks[segment] * kBlockK + k_row;
      int k = k_row;
      if constexpr (c.split_k) {
        const int blocks = p.geometry.k_blocks[segment];
        const int skip = min_of(begin, blocks), take = min_of(blocks - skip, left);
        begin -= skip;
        left -= take;
        k += skip * kBlockK;
        end = k + take * kBlockK;
      }
#pragma unroll 1
      for (; k < end; k += kBlockK) {
        delay<c.delays>(1, index + k);
        barrier_wait(barriers.empty(at.slot), at.phase ^ 1);
        const u32 full = barriers.full(at.slot);
        if (lane == 0) barrier_expect(full, plan.stage_bytes);
        const u32 to = place + at.slot * plan.stage_bytes;
        const int x = k_first ? k : mn, y = k_first ? mn : k;
        if (active) {
          if ((is_a ? plan.a_share : plan.b_share) == 2)
            tma_load_both(to, p.maps + map, x, y, full);
          else
            tma_load(to, p.maps + map, x, y, full);
        }
        __syncwarp();
        at.advance();
      }
      map += is_a ? c.a_parts : c.accumulators * c.b_parts;
    }
  }
  if constexpr (c.pdl) dependents_launch();
}

template <class K>
using Accumulators =
    float[K::config.accumulators][Shape<K>::plan.row_blocks][Shape<K>::plan.tile_cols / 2];

// One warpgroup's product of one item. `ready` runs once, after the last stage has been waited for:
// from there on the other warpgroup can wait for its own stages without running a phase ahead.
template <class K, class Ready>
CODA_DEVICE void multiply(Accumulators<K>& acc, u32 smem, u32 group, u32 thread,
                          Cursor<Shape<K>::plan.stages>& at, int blocks, Ready ready) {
  constexpr Config c = K::config;
  constexpr Plan plan = Shape<K>::plan;
  constexpr u32 cluster = Shape<K>::cluster;
  const Barriers<K> barriers(smem);
  const u32 a_from = smem + (Shape<K>::pingpong ? 0 : group * plan.group_rows * kRowBytes);
  const u64 a_base = wgmma_descriptor<c.a_major>(a_from);
  const u64 b_base = wgmma_descriptor<c.b_major>(smem + plan.a_bytes);
  // Thread 32 r of the group speaks for it to CTA r.
  const bool speaks = (thread & 31) == 0 && thread / 32 < cluster;
  int scale = 0;
  u32 previous = 0;
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    delay<c.delays>(2 + group, block);
    barrier_wait(barriers.full(at.slot), at.phase);
    const u32 stage = at.slot * (plan.stage_bytes / 16);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockK / 16; ++step) {
      const u64 a = a_base + (stage + step * kWgmmaStep<c.a_major>);
      const u64 b = b_base + (stage + step * kWgmmaStep<c.b_major>);
#pragma unroll
      for (int i = 0; i < plan.row_blocks; ++i)
#pragma unroll
        for (int n = 0; n < c.accumulators; ++n)
          Wgmma<plan.tile_cols>::template issue<c.element, c.a_major == Major::mn,
                                                c.b_major == Major::mn>(
              acc[n][i], a + i * (64 * kRowBytes / 16), b + n * (plan.tile_cols * kRowBytes / 16),
              scale);
      scale = 1;
    }
    wgmma_commit();
    if (block + 1 == blocks) ready();
    // One block stays in flight; the one before it has been read.
    wgmma_wait<1>();
    if (block > 0 && speaks) barrier_arrive_cluster(barriers.empty(previous), thread / 32);
    previous = at.slot;
    at.advance();
  }
  wgmma_wait<0>();
  if (speaks) barrier_arrive_cluster(barriers.empty(previous), thread / 32);
}

}  // namespace coda::device

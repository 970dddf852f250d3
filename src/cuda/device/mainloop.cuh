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

// The boxes of one operand's stage that this CTA loads, from k of a segment on.
template <class K, bool IsA>
CODA_DEVICE void load_operand(const typename Shape<K>::Launch& p, const Item& item, u32 rank,
                              int segment, int k, u32 stage, u32 full) {
  constexpr Config c = K::config;
  constexpr Plan plan = Shape<K>::plan;
  constexpr bool k_first = (IsA ? c.a_major : c.b_major) == Major::k;
  constexpr bool shared = (IsA ? plan.a_share : plan.b_share) == 2;
  constexpr int parts = IsA ? c.a_parts : c.b_parts;
  constexpr int rows = k_first ? (IsA ? plan.a_box_rows : plan.b_box_rows) : 64;
  // Of a shared operand this CTA's half begins at this row, or k-row, of the tile.
  const int half = shared && k_first ? static_cast<int>(rank) * (IsA ? c.tile_m : c.tile_n) / 2 : 0;
  const int k_row = shared && !k_first ? static_cast<int>(rank) * (kBlockK / 2) : 0;
#pragma unroll
  for (int box = 0; box < (IsA ? plan.a_boxes : plan.b_boxes); ++box) {
    const int row = half + box * rows;
    const int accumulator = IsA || c.accumulators == 1 ? 0 : row / plan.tile_cols;
    int mn = IsA ? item.tile_m * c.tile_m + row
                 : item.tile_n * plan.tile_cols + row - accumulator * plan.tile_cols;
    const int part = part_of<parts>(IsA ? p.geometry.a_begin : p.geometry.b_begin, mn);
    const TensorMap* map =
        p.maps + (IsA ? segment * c.a_parts + part
                      : plan.a_maps + (segment * c.accumulators + accumulator) * c.b_parts + part);
    // 64 panel columns take 8192 bytes just as 64 rows do.
    const u32 to = stage + (IsA ? 0 : plan.a_bytes) + (row + k_row) * kRowBytes;
    const int x = k_first ? k : mn, y = k_first ? mn : k + k_row;
    if (shared)
      tma_load_both(to, map, x, y, full);
    else
      tma_load(to, map, x, y, full);
  }
}

// The producer warp. One lane issues all boxes, of values that are the same in all lanes: they live
// in uniform registers, where the copy engine's instruction wants them. Lanes with boxes of their own
// would be served one after the other, and not keep up with the multiplication.
template <class K>
CODA_DEVICE void produce_operands(const typename Shape<K>::Launch& p, u32 smem) {
  constexpr Config c = K::config;
  constexpr Plan plan = Shape<K>::plan;
  const Barriers<K> barriers(smem);
  const u32 rank = cluster_rank<Shape<K>::cluster>();
  Cursor<plan.stages> at;
#pragma unroll 1
  for (u32 index = first_item<K>(); index < item_count(p.geometry); index += item_step<K>()) {
    const Item item = item_at<K>(p.geometry, index, rank);
    int begin = item.first_block, left = item.blocks;
#pragma unroll 1
    for (int segment = 0; segment < c.segments; ++segment) {
      int k = 0, end = p.geometry.k_blocks[segment] * kBlockK;
      if constexpr (c.split_k) {
        const int blocks = p.geometry.k_blocks[segment];
        const int skip = min_of(begin, blocks), take = min_of(blocks - skip, left);
        begin -= skip;
        left -= take;
        k = skip * kBlockK;
        end = k + take * kBlockK;
      }
#pragma unroll 1
      for (; k < end; k += kBlockK) {
        delay<c.delays>(1, index + k);
        barrier_wait(barriers.empty(at.slot), at.phase ^ 1);
        if (elect_one()) {
          const u32 full = barriers.full(at.slot), stage = smem + at.slot * plan.stage_bytes;
          barrier_expect(full, plan.stage_bytes);
          load_operand<K, true>(p, item, rank, segment, k, stage, full);
          load_operand<K, false>(p, item, rank, segment, k, stage, full);
        }
        __syncwarp();
        at.advance();
      }
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

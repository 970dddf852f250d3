// SPDX-License-Identifier: Apache-2.0
//
// The order of tiles: static, the same for every role, computed and never communicated.
//
// Cluster c of C works on items c, c + C, ... An item is a cluster-sized block of tiles and one K
// range. Items run in groups of `group` clusters along M by all of N (or the other way round), M
// first inside a group, so that the CTAs of one wave share rows of A and of B in L2. K ranges are
// the slowest index. All counts are below 2^31 (the host refuses more); element offsets are 64-bit
// where they are formed.
#pragma once
#include "../plan/plan.h"

namespace coda::device {

struct Item {
  int tile_m, tile_n;       // in tiles
  int first_block, blocks;  // K range in blocks of kBlockK over all segments
  int split;
};

CODA_BOTH inline u32 item_count(const Geometry& g) {
  return static_cast<u32>(g.clusters_m) * static_cast<u32>(g.clusters_n) *
         static_cast<u32>(g.splits);
}

#if defined(__CUDACC__)
// The items of this CTA's cluster, worked out where they are used: a warp with 24 registers must
// not carry them along.
template <class K>
__device__ __forceinline__ u32 first_item() {
  return blockIdx.x / Shape<K>::cluster;
}
template <class K>
__device__ __forceinline__ u32 item_step() {
  return gridDim.x / Shape<K>::cluster;
}
#endif

template <class K>
CODA_BOTH inline Item item_at(const Geometry& g, u32 index, u32 rank) {
  constexpr Config c = K::config;
  Item t{};
  t.blocks = g.total_blocks;
  if constexpr (c.split_k) {
    const u32 plane = static_cast<u32>(g.clusters_m) * static_cast<u32>(g.clusters_n);
    t.split = static_cast<int>(index / plane);
    index -= t.split * plane;
    t.first_block = t.split * g.blocks_per_split;
    t.blocks = min_of(g.blocks_per_split, g.total_blocks - t.first_block);
  }
  const u32 slow = g.along_n ? g.clusters_n : g.clusters_m;
  const u32 fast = g.along_n ? g.clusters_m : g.clusters_n;
  const u32 in_group = static_cast<u32>(g.group) * fast;
  const u32 first = index / in_group * g.group;
  const u32 inside = index % in_group;
  const u32 height = slow - first < static_cast<u32>(g.group) ? slow - first : g.group;
  const u32 a = first + inside % height, b = inside / height;
  t.tile_m = static_cast<int>((g.along_n ? b : a) * c.cluster_m + (c.cluster_m > 1 ? rank : 0));
  t.tile_n = static_cast<int>((g.along_n ? a : b) * c.cluster_n + (c.cluster_n > 1 ? rank : 0));
  return t;
}

}  // namespace coda::device

// SPDX-License-Identifier: Apache-2.0
//
// The kernel skeleton: who does what, and in which order.
//
// 384 threads. Warpgroup 0 gives registers away and feeds: warp 0 operands, warps 1 and 2 the tile
// inputs of consumer group 0 and 1, warp 3 vectors. Warpgroups 1 and 2 consume: cooperative, both
// every item, half of the rows each; ping-pong, items in turn, one multiplies while the other runs
// its epilogue. A group starts multiplying only after the other has waited for its last stage: a
// parity wait tells apart only neighbouring phases. It is woken only for an item that exists, so
// no barrier is left half-arrived.
//
// A generated kernel is CODA_KERNEL(name, Program), where Program has
//   static constexpr Config config;  static constexpr Port ports[];
//   template <int Pass, class Strip>
//   static CODA_DEVICE void apply(Strip& t, const float (&acc)[config.accumulators][values]);
// with values = 4 * strip_blocks(config.pair, Width::full); Pass counts up to config.passes.
// It is launched with a grid that is a multiple of the cluster size and plan.smem_bytes of dynamic
// shared memory.
// NVRTC compiles the concatenated files with -std=c++20 -arch=sm_90a -default-device (generic
// lambdas carry no execution space).
#pragma once
#include "epilogue.cuh"

#define CODA_KERNEL(name, Program)                                               \
  extern "C" __global__ void __launch_bounds__(coda::device::kThreads, 1)        \
      __cluster_dims__(coda::device::Shape<Program>::cluster, 1, 1)              \
          name(const __grid_constant__ coda::device::Shape<Program>::Launch p) { \
    coda::device::run_kernel<Program>(p);                                        \
  }

namespace coda::device {

template <class K>
CODA_DEVICE void consume(const typename Shape<K>::Launch& p, u32 smem) {
  constexpr Plan plan = Shape<K>::plan;
  constexpr bool pingpong = Shape<K>::pingpong;
  const u32 thread = threadIdx.x & 127;
  // The same in all lanes, and the compiler should know.
  const u32 warp = __shfl_sync(~0u, threadIdx.x / 32 - 4, 0);
  const u32 group = warp / 4;
  Cursor<plan.stages> at;
  Epilogue<K> epilogue;
  u32 turn = 0;
  for (u32 index = first_item<K>(); index < item_count(p.geometry);
       index += item_step<K>(), ++turn) {
    const Item item = item_at<K>(p.geometry, index, cluster_rank<Shape<K>::cluster>());
    if (pingpong && (turn & 1) != group) {
      at.skip(item.blocks);
      continue;
    }
    if (pingpong && turn > 0) named_sync(1 + group, 256);
    Accumulators<K> acc;
    multiply<K>(acc, smem, group, thread, at, item.blocks, [&] {
      if (pingpong && item_count(p.geometry) - index > item_step<K>()) named_arrive(2 - group, 256);
    });
    epilogue.run(p, smem, warp, item, turn, acc);
  }
  if ((thread & 31) == 0) tma_store_wait_read<0>();
  __syncwarp();
}

template <class K>
CODA_DEVICE void run_kernel(const typename Shape<K>::Launch& p) {
  constexpr Plan plan = Shape<K>::plan;
  constexpr u32 cluster = Shape<K>::cluster;
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const u32 smem = shared_address(shared_memory);
  if (threadIdx.x == 0) {
    Barriers<K>(smem).init();
    barrier_init_fence();
  }
  if (threadIdx.x >= 32 && threadIdx.x < 32 + plan.maps) tma_prefetch(p.maps + threadIdx.x - 32);
  cluster > 1 ? cluster_sync() : __syncthreads();
  if constexpr (K::config.pdl) dependency_wait();
  if (threadIdx.x < 128) {
    registers_give<plan.producer_registers>();
    const u32 warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    if (warp == 0)
      produce_operands<K>(p, smem);
    else if (plan.has_loads && warp < 3)
      produce_tiles<K>(p, smem, warp - 1);
    else if (plan.has_vectors && warp == 3)
      produce_vectors<K>(p, smem);
    __syncwarp();
  } else {
    registers_take<plan.consumer_registers>();
    consume<K>(p, smem);
  }
  // The peer may still arrive on this CTA's barriers.
  if constexpr (cluster > 1) cluster_sync();
}

}  // namespace coda::device

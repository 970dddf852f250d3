// SPDX-License-Identifier: Apache-2.0
//
// The tensor copy engine: boxes of a 2-D tensor to and from shared memory.
//
// Coordinates are (contiguous axis, other axis) in elements. Loads fill what lies outside the
// tensor with zeros, to the element, and count its bytes all the same. Stores drop what lies
// outside, but along the contiguous axis only in whole 16-byte units: a tensor whose rows end
// inside a unit has the rest of the unit overwritten, so the host must not store to such a view
// unless the padding is its own. One thread issues; a store's completion is tracked per issuing
// thread by groups.
#pragma once
#include "../plan/config.h"
#include "barrier.cuh"

namespace coda::device {

CODA_DEVICE void tma_prefetch(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

CODA_DEVICE void tma_load(u32 to, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// To the same offset, and the same barrier, of both CTAs of the cluster.
CODA_DEVICE void tma_load_both(u32 to, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(static_cast<unsigned short>(3))
      : "memory");
}

CODA_DEVICE void tma_store(const TensorMap* map, int x, int y, u32 from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(x), "r"(y), "r"(from)
      : "memory");
}
CODA_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most N groups still read shared memory.
template <int N>
CODA_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Orders this thread's ordinary shared-memory accesses before later ones of the copy engine.
CODA_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace coda::device

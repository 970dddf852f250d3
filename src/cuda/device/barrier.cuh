// SPDX-License-Identifier: Apache-2.0
//
// mbarrier and named barriers.
//
// Shared memory is addressed by its 32-bit window address throughout. A wait is by phase parity: it
// returns once the phase with that parity has completed, so a waiter may be at most one phase
// behind.
#pragma once
#include "../plan/types.h"

namespace coda::device {

CODA_DEVICE u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

CODA_DEVICE void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the peer CTA and to the copy engine.
CODA_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
CODA_DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
CODA_DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives on the same barrier of CTA `rank` of the cluster. The plain form: a .release.cluster
// here costs a fence per stage, and what is released was only read, by the asynchronous proxy.
CODA_DEVICE void barrier_arrive_cluster(u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
CODA_DEVICE void barrier_wait(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

CODA_DEVICE void named_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
CODA_DEVICE void named_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Position in a ring of N slots.
template <int N>
struct Cursor {
  u32 slot = 0, phase = 0;
  CODA_DEVICE void advance() {
    if (++slot == N) {
      slot = 0;
      phase ^= 1;
    }
  }
  CODA_DEVICE void skip(u32 count) {
    const u32 at = slot + count;
    phase ^= (at / N) & 1;
    slot = at % N;
  }
};

}  // namespace coda::device

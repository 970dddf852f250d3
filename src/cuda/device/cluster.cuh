// SPDX-License-Identifier: Apache-2.0
//
// Clusters, register hand-over, dependent launch, and the debug delays.
#pragma once
#include "barrier.cuh"

namespace coda::device {

template <u32 Size>
CODA_DEVICE u32 cluster_rank() {
  u32 r = 0;
  if constexpr (Size > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

// All threads of all CTAs of the cluster.
CODA_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

template <int N>
CODA_DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
CODA_DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// Returns when the kernels this launch depends on have finished and their writes are visible. A
// no-op in a launch without the programmatic attribute.
CODA_DEVICE void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
CODA_DEVICE void dependents_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// True in one lane of the warp.
CODA_DEVICE bool elect_one() {
  u32 elected;
  asm volatile(
      "{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(elected));
  return elected != 0;
}

// Not known to be the same number twice, so that nothing made of it is kept in a register.
CODA_DEVICE u32 lane_id_opaque() {
  u32 r;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(r));
  return r;
}

// The same value, but not known to be: what is made of it stays where it is made.
CODA_DEVICE u32 opaque(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}

// Debug builds put roles out of step: a sleep of 0 to 4 us, hashed from block, place and turn.
template <bool On>
CODA_DEVICE void delay(u32 place, u32 turn) {
  if constexpr (On) {
    u32 h = (blockIdx.x * 0x9E3779B1u) ^ (place * 0x85EBCA77u) ^ (turn * 0xC2B2AE3Du);
    h ^= h >> 15;
    h *= 0x2C1B3C6Du;
    h ^= h >> 13;
    if ((h & 3) == 0) asm volatile("nanosleep.u32 %0;" ::"r"((h >> 8) & 4095));
  }
}

}  // namespace coda::device

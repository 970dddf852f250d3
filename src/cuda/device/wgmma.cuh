// SPDX-License-Identifier: Apache-2.0
//
// wgmma: a warpgroup multiplies 64 x 16 of A with N x 16 of B from shared memory into registers.
//
// Each warp gets a fragment (matrix.cuh) of its 16 rows. The issue is asynchronous: between the
// fence and the wait the accumulators must not be touched, and no function may be called.
#pragma once
#include "../plan/config.h"
#include "barrier.cuh"

namespace coda::device {

CODA_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CODA_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
CODA_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Descriptor of a 128-byte swizzled operand at `address`, 1024-aligned but for the K offset inside
// a row. Bits: address / 16; leading offset / 16 at 16 (MN-major: distance of two 64-wide panels);
// stride offset / 16 at 32 (distance of two groups of eight 128-byte rows); swizzle 1 at 62. In a
// cluster a shared address carries the CTA's rank above its 18 bits; it must not reach the offsets.
template <Major Order>
CODA_DEVICE u64 wgmma_descriptor(u32 address) {
  constexpr u64 leading = Order == Major::mn ? kBlockK * 128 / 16 : 1;
  constexpr u64 fixed = (1ull << 62) | (u64{1024 / 16} << 32) | (leading << 16);
  return fixed | ((address & 0x3FFFF) >> 4);
}
// Descriptor units from one k16 step to the next.
template <Major Order>
inline constexpr u32 kWgmmaStep = Order == Major::mn ? 16 * 128 / 16 : 16 * 2 / 16;

template <int N>
struct Wgmma;

#define CODA_R0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CODA_R1 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CODA_R2 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define CODA_R3 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CODA_R4 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define CODA_R5 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CODA_R6 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define CODA_R7 \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CODA_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CODA_F16(i) CODA_F4(i), CODA_F4(i + 4), CODA_F4(i + 8), CODA_F4(i + 12)

// da, db, sd, ta, tb: the operand numbers after the accumulators.
#define CODA_WGMMA_ASM(n, type, regs, da, db, sd, ta, tb, ...)                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " sd                                             \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" regs "}, " da \
               ", " db ", p, 1, 1, " ta ", " tb ";\n}\n"                                          \
               : __VA_ARGS__                                                                      \
               : "l"(a), "l"(b), "r"(scale), "n"(TransA), "n"(TransB))
#define CODA_WGMMA(n, regs, da, db, sd, ta, tb, ...)                            \
  template <>                                                                   \
  struct Wgmma<n> {                                                             \
    template <Type T, int TransA, int TransB>                                   \
    static CODA_DEVICE void issue(float (&d)[n / 2], u64 a, u64 b, int scale) { \
      if constexpr (T == Type::bf16)                                            \
        CODA_WGMMA_ASM(n, "bf16", regs, da, db, sd, ta, tb, __VA_ARGS__);       \
      else                                                                      \
        CODA_WGMMA_ASM(n, "f16", regs, da, db, sd, ta, tb, __VA_ARGS__);        \
    }                                                                           \
  };

CODA_WGMMA(64, CODA_R0 ", " CODA_R1, "%32", "%33", "%34", "%35", "%36", CODA_F16(0), CODA_F16(16))
CODA_WGMMA(96, CODA_R0 ", " CODA_R1 ", " CODA_R2, "%48", "%49", "%50", "%51", "%52", CODA_F16(0),
           CODA_F16(16), CODA_F16(32))
CODA_WGMMA(128, CODA_R0 ", " CODA_R1 ", " CODA_R2 ", " CODA_R3, "%64", "%65", "%66", "%67", "%68",
           CODA_F16(0), CODA_F16(16), CODA_F16(32), CODA_F16(48))
CODA_WGMMA(192, CODA_R0 ", " CODA_R1 ", " CODA_R2 ", " CODA_R3 ", " CODA_R4 ", " CODA_R5, "%96",
           "%97", "%98", "%99", "%100", CODA_F16(0), CODA_F16(16), CODA_F16(32), CODA_F16(48),
           CODA_F16(64), CODA_F16(80))
CODA_WGMMA(256,
           CODA_R0 ", " CODA_R1 ", " CODA_R2 ", " CODA_R3 ", " CODA_R4 ", " CODA_R5 ", " CODA_R6
                   ", " CODA_R7,
           "%128", "%129", "%130", "%131", "%132", CODA_F16(0), CODA_F16(16), CODA_F16(32),
           CODA_F16(48), CODA_F16(64), CODA_F16(80), CODA_F16(96), CODA_F16(112))

}  // namespace coda::device

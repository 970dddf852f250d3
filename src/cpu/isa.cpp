// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.h"

#include <array>

#include "cpu/kernels.h"

namespace coda::cpu {

void baseline_kernels(Kernels& table);
#ifdef CODA_WIDE_KERNELS
void avx2_kernels(Kernels& table);
void avx512_kernels(Kernels& table);
#endif

bool supports(Isa isa) {
  if (isa == Isa::baseline) return true;
#ifdef CODA_WIDE_KERNELS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (isa == Isa::avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

Isa best_isa() {
  for (Isa isa : {Isa::avx512, Isa::avx2})
    if (supports(isa)) return isa;
  return Isa::baseline;
}

const Kernels& kernels(Isa isa) {
  static const std::array<Kernels, 3> tables = [] {
    std::array<Kernels, 3> made{};
    baseline_kernels(made[0]);
#ifdef CODA_WIDE_KERNELS
    // What fills a table is compiled for its instruction set as well, so it may not even run
    // elsewhere.
    if (supports(Isa::avx2)) avx2_kernels(made[1]);
    if (supports(Isa::avx512)) avx512_kernels(made[2]);
#endif
    return made;
  }();
  return tables[static_cast<int>(isa)];
}

}  // namespace coda::cpu

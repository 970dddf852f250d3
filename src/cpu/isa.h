// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the inner loops are compiled for. All give the same bits.
#pragma once

namespace coda::cpu {

enum class Isa : unsigned char {
  baseline,  // x86-64-v2, or whatever another architecture has
  avx2,      // x86-64-v3
  avx512,    // x86-64-v4
};

/// Whether this processor (and this build) can run it.
bool supports(Isa isa);

/// The widest that it can.
Isa best_isa();

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
// Where the values of a tape lie: sections, rows of a block, and slots reused by liveness.
#pragma once

#include "cpu/grid.h"
#include "cpu/tape.h"

namespace coda::cpu {

/// Fills in everything of `tape` but its code.
void place(Tape& tape, const Grid& grid, const Kernels& kernels);

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
// The derivative of an epilogue program is an epilogue program: one reverse walk over the IR, op by
// op.
//
// The dualities that make it true: a broadcast load becomes a reduction, a reduction a broadcast
// load, split a join, a tile load a tile store. Nothing here knows an operation by name beyond the
// reductions; the elementwise derivatives are those of <coda/elementwise.def>.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace coda::autodiff {

struct Options {
  std::vector<std::string> wrt;  // inputs; empty: every accumulator and float tensor but tables
  std::vector<std::string> of;   // outputs with an upstream gradient; empty: every float output
  std::vector<std::string>
      nonzero;  // column vectors known to be other than 0: their gradient may divide
};

struct Result {
  ir::Program
      forward;  // with an output added for each value that backward needs and nothing stores
  ir::Program backward;  // inputs d_OUTPUT, saved and original values; outputs d_INPUT
};

Result differentiate(const ir::Program& program, const Options& options);

/// Makes the full-width tile input `input` an accumulator.
ir::Program into_accumulator(const ir::Program& program, std::string_view input);

/// A program and the one that uses its reduction (residual_rms, then rmsnorm_swiglu): the second's
/// column vectors that the first makes and that cannot be 0 (rsqrt, exp, sigmoid ...) may be
/// divided by, so that their gradient is a sum over values that are stored anyway (maths of the
/// RMSNorm gradient: z * dz).
struct ChainResult {
  Result first, second;
};
ChainResult differentiate_chain(const ir::Program& first, const ir::Program& second,
                                const Options& of_second);

}  // namespace coda::autodiff

// SPDX-License-Identifier: Apache-2.0
// What a program costs on paper: every byte that has to move once, every operation, every rounding,
// and the same of the unfused sequence. Counts alone; nothing is run or timed.
//
// Fused, each operand, input and output moves once. A [M, K] counts once, as accumulators share it
// in the usual case; each accumulator has its own B. Unfused, the matrix products write their
// results in T, and each group of elementwise work and each reduction is a kernel that reads its
// inputs from memory: elementwise outputs that depend on the same reductions form one group, as one
// hand-written kernel would compute them, and so do reductions that keep the same dims.
#pragma once

#include <coda/program.h>

#include <string>
#include <vector>

#include "call/call.h"

namespace coda {

struct TensorCost {
  std::string name;
  std::string type;  // "bf16[m, n]"
  double bytes = 0;
};

struct KernelCost {
  std::string work;  // "product a", "x, h", "mean -> rstd"
  double read = 0, written = 0;
  double operations = 0;
};

struct Explanation {
  std::string program;
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::bf16;
  std::vector<TensorCost> loads, stores;
  double product_flops = 0;   // 2 M N K for each accumulator
  double epilogue_flops = 0;  // one for each elementwise operation and each term of a reduction
  std::vector<std::string> roundings;  // where float32 is rounded, in the fused program
  int unfused_roundings = 0;
  std::vector<TensorCost> saved;  // what the derived backward reads, besides upstream gradients
  std::string saved_note;         // why there is no derivative; empty where there is one
  std::vector<KernelCost> unfused;

  double bytes_loaded() const;
  double bytes_stored() const;
  double intensity() const;  // FLOP per byte
};

/// Throws Error{shape} when the sizes do not fit the program, Error{argument} unless m, n and k are
/// at least 0. k counts only where the program has an accumulator.
Explanation explain(const Program& program, const Instance& instance, int64_t m, int64_t n,
                    int64_t k);

/// The kernels of the unfused sequence, in order, matrix products first. Part of explain();
/// `symbols` has N and M set.
std::vector<KernelCost> unfused_kernels(const ir::Program& program, DType type,
                                        const std::vector<int64_t>& symbols, int64_t k);

/// Elements of a value of these dims; bytes of a tensor.
double elements(const ir::Dims& dims, const std::vector<int64_t>& symbols);
double bytes(const ir::ElementType& element, const ir::Dims& dims, DType type,
             const std::vector<int64_t>& symbols);

}  // namespace coda

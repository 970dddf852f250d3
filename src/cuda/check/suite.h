// SPDX-License-Identifier: Apache-2.0
// What is timed: the kernels of models at the sizes where a layer runs them, and programs of the
// generator; and how much more than cuBLAS's bare product each may take.
#pragma once

#include <string>
#include <vector>

#include "cuda/backend/fused.h"
#include "cuda/check/call.h"

namespace coda::cuda {

enum class RowClass : unsigned char {
  product,    // the product alone is stored
  fused,      // a program on its epilogue
  streaming,  // the same with K <= 2048 and three or more tiles in memory: those bytes show
  generated,  // a program of the generator
  pass,       // no product at all
};
const char* name_of(RowClass row_class);
/// The class of a program that the generator did not make.
RowClass class_of(const Instance& instance, const CallSize& size);

/// The most that a row may take, in times of the bare product; 0: there is none to compare with.
double bound_of(RowClass row_class);
inline constexpr double kHardBound = 1.10;

/// What is timed, and the size of its call.
struct BenchRow {
  std::string name;
  Instance instance;
  CallSize size;
  RowClass row_class = RowClass::fused;
};

/// Layers of width 2048, 4096 and 8192 (16384 tokens, 8192 at the last): each program on its
/// epilogues, forward and derived backward; the plain products of the first two widths; loss heads.
std::vector<BenchRow> kernel_rows();

/// Five programs of the generator that fit the mainloop, at M = 16384, N and K of about 4096.
std::vector<BenchRow> generated_rows();

/// The row's call as the mainloop takes it, or why it does not. Needs no GPU.
std::variant<FusedCall, std::string> mainloop_call(const BenchRow& row, int multiprocessors);

}  // namespace coda::cuda

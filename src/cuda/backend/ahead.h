// SPDX-License-Identifier: Apache-2.0
// Kernels compiled before anybody calls them: many at a time, in worker processes, without a GPU.
// What is compiled stays in the cache, where the calls find it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/backend/fused.h"
#include "cuda/runtime/compiler.h"

namespace coda::cuda {

struct AheadCall {
  const Instance* instance;
  FusedCall call;
  ConfigWish wish;
};

/// What a call runs.
struct AheadResult {
  std::optional<device::Config> config;  // of the fused kernel
  int splits = 1;
  bool tuned = false;  // a table had the configuration
  std::string reason;  // why there is none
  std::vector<KernelResources> kernels;
  bool from_cache = false;
};

/// Compiles what each call runs: the best configuration that ptxas builds without faults, or the
/// kernels of the unfused way. `workers`: CompilerOptions::workers.
std::vector<AheadResult> compile_ahead(std::span<const AheadCall> calls, int workers = 0);

/// The kernels of the unfused way alone, by instance.
std::vector<AheadResult> compile_unfused_ahead(std::span<const Instance* const> instances,
                                               int workers = 0);

/// A product whose layout is NT, NN or TN: the forward one, the gradient of the input, that of the
/// weight.
struct UsualCall {
  std::string layout;
  FusedCall call;
};

/// The call of M x N x K in one piece, aligned, without seams.
UsualCall usual_call(const Instance& instance, const std::string& layout, int64_t m, int64_t n,
                     int64_t k);
/// Calls of models of width 2048 to 8192 in one layout.
std::vector<UsualCall> usual_calls(const Instance& instance, const std::string& layout);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Ways of computing one call, timed turn and turn about: the chip's clock moves with its load, so
// that only times of one run compare.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/backend/configure.h"
#include "cuda/check/call.h"

namespace coda::cuda {

/// One way of computing, and the median of its times.
struct Timed {
  std::string name;  // "cuBLAS" (the bare product), "cuBLAS + kernels", "coda"
  std::string way;   // of coda: the configuration, or why there is none
  double microseconds = 0;
  double first_use_seconds = 0;  // of coda: from compile to a loaded kernel
};

struct Contender {
  Timed timed;
  std::function<void()> launch;
  std::shared_ptr<const void> owned;
};

struct Turns {
  double slot_ms = 300;
  int rounds = 3;
};

/// The kernel on its call. What it needs of the arena stays there; throws what compiling throws.
Contender coda_contender(const std::shared_ptr<const Gpu>& gpu, const Arena& arena,
                         const Instance& instance, const std::shared_ptr<const BoundCall>& call,
                         const std::string& name, const std::optional<ConfigWish>& wish);

/// One product of cuBLASLt over all of K, of `n` columns, that stores the type of its operands.
Contender bare_contender(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const CallSize& size,
                         int64_t n, DType type);

/// Times each for a slot in every round; the medians are left in `timed`.
void take_turns(const std::shared_ptr<const Gpu>& gpu, const Arena& arena,
                std::vector<Contender>& contenders, const Turns& turns);

double median(std::vector<double> values);

}  // namespace coda::cuda

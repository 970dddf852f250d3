// SPDX-License-Identifier: Apache-2.0
// Times of programs on a GPU against cuBLAS: random data, slots of some 300 ms turn and turn about,
// medians.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/backend/configure.h"
#include "cuda/check/call.h"

namespace coda::cuda {

/// What is timed, and the size of its call.
struct BenchRow {
  std::string name;
  Instance instance;
  CallSize size;
};

/// The projections of LLaMA layers of width 2048 and 4096 with 16384 tokens, as plain products and
/// with the programs that stand on them; a loss head.
std::vector<BenchRow> model_rows();

struct BenchOptions {
  std::optional<ConfigWish> wish;
  double slot_ms = 300;
  int rounds = 3;
  int candidates = 1;  // how many of the model's best configurations are timed
};

/// One way of computing, and the median of its times.
struct Timed {
  std::string name;  // "cuBLAS" (the bare product), "cuBLAS + kernels", "coda"
  std::string way;   // of coda: the configuration, or why there is none
  double microseconds = 0;
  double first_use_seconds = 0;  // of coda: from compile to a loaded kernel
};

struct BenchResult {
  std::string name;
  int64_t m = 0, n = 0, k = 0;  // n of all accumulators together
  std::vector<Timed> times;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  /// The first of that name; null where there is none.
  const Timed* find(std::string_view name) const;
};

/// The bare product is one product of all of N and K that stores T. "cuBLAS + kernels" stores the
/// accumulators as T and reads them in stand-alone kernels.
BenchResult bench(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const BenchRow& row,
                  const BenchOptions& options);

/// Microseconds that the host spends on a launch of `linear`, and of an empty kernel.
struct HostTimes {
  double launch = 0, empty = 0;
};
HostTimes time_host(const std::shared_ptr<const Gpu>& gpu, Arena& arena);

inline constexpr size_t kBenchBytes = size_t{24} << 30;

}  // namespace coda::cuda

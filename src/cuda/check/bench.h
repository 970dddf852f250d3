// SPDX-License-Identifier: Apache-2.0
// Times of programs on a GPU against cuBLAS: random data, slots of some 300 ms turn and turn about,
// medians.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/check/contender.h"
#include "cuda/check/suite.h"

namespace coda::cuda {

struct BenchOptions {
  std::optional<ConfigWish> wish;
  Turns turns;
  int candidates = 1;  // how many of the model's best configurations are timed
};

struct BenchResult {
  std::string name;
  RowClass row_class = RowClass::fused;
  int64_t m = 0, n = 0, k = 0;  // n of all accumulators together
  int64_t bytes = 0;            // of operands, inputs and outputs, each once
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

/// Compiles what bench() runs of the rows side by side into the cache. Their first use is then that
/// of cached kernels. Needs no GPU.
void compile_rows(std::span<const BenchRow> rows, const BenchOptions& options, int multiprocessors);

/// What a call reads and writes where nothing is read twice.
int64_t bytes_of(const BoundCall& call);

/// Microseconds that the host spends on a launch of `linear`, and of an empty kernel.
struct HostTimes {
  double launch = 0, empty = 0;
};
HostTimes time_host(const std::shared_ptr<const Gpu>& gpu, Arena& arena);

inline constexpr size_t kBenchBytes = size_t{24} << 30;

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Calls as large as models make them, on a GPU against float64: every element must be written,
// twice with the same bits; samples of them are held against the reference (check/sample.h).
#pragma once

#include <functional>

#include "check/sample.h"
#include "cuda/check/bench.h"

namespace coda::cuda {

struct LargeOptions {
  std::optional<ConfigWish> wish;
  check::SampleCounts counts;
  uint64_t seed = 1;  // of where the samples lie
  int threads = 0;    // 0: one per core
};

struct LargeResult {
  std::string name;
  CallSize size;
  std::string way;  // "fused pingpong 128x192 ...", or "unfused: reason"
  size_t samples = 0;
  int64_t elements = 0;  // that were compared
  double ratio = 0;      // largest error / tolerance
  bool ok = true;
  bool lost = false;                   // the GPU failed: nothing after it would count
  std::string message;                 // what is wrong
  std::vector<std::string> uncovered;  // outputs that were not compared
  double seconds = 0;
};

LargeResult verify(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const BenchRow& row,
                   const LargeOptions& options);

/// Verifies each row, until one loses the GPU. A launch that hangs ends the process after naming
/// its row.
std::vector<LargeResult> verify_rows(const std::shared_ptr<const Gpu>& gpu,
                                     const std::vector<BenchRow>& rows, const LargeOptions& options,
                                     const std::function<void(const BenchRow&)>& begin,
                                     const std::function<void(const LargeResult&)>& end);

}  // namespace coda::cuda

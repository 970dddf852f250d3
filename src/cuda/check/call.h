// SPDX-License-Identifier: Apache-2.0
// Calls of a given size on device memory full of drawn values, as models make them: contiguous
// tensors, one A for all accumulators, operands laid out for a forward product or a gradient.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check/draw.h"
#include "cuda/backend/gpu.h"
#include "cuda/runtime/stream.h"

namespace coda::cuda {

/// Device memory that is shared out and filled; without a GPU (null), null pointers.
class Arena {
 public:
  Arena(std::shared_ptr<const Gpu> gpu, size_t bytes);
  StreamHandle stream() const { return stream_ ? stream_->handle() : nullptr; }
  void synchronise() const;
  void reset() { used_ = 0; }
  std::byte* take(int64_t bytes);
  /// `n` bounds drawn column indices; real values are drawn times `scale`.
  std::byte* tensor(int64_t elements, DType type, check::Source source, int64_t n,
                    double scale = 1);

 private:
  const std::vector<std::byte>& pool_of(DType type, check::Source source, int64_t n, double scale);

  std::shared_ptr<const Gpu> gpu_;
  std::unique_ptr<Stream> stream_;
  Memory memory_;
  size_t bytes_, used_ = 0;
  std::map<std::tuple<DType, check::Source, int64_t, double>, std::vector<std::byte>> pools_;
};

/// M x N, and the K of each product of a sum. "NT", "NN" or "TN": which of A [M, K] and B [N, K]
/// lie as they are (N and T) and which are turned.
struct CallSize {
  int64_t m = 0, n = 0;
  std::vector<int64_t> depths;
  std::string layout = "NT";

  int64_t depth() const;
  /// What weights are drawn times, so that products of drawn operands stay near N(0, 1).
  double weight_scale() const;
  bool turned_a() const { return layout[0] == 'T'; }
  bool turned_b() const { return layout[1] == 'N'; }
};

BoundCall make_call(Arena& arena, const Instance& instance, const CallSize& size);

}  // namespace coda::cuda

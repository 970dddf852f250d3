// SPDX-License-Identifier: Apache-2.0
// The unfused way of running a call, which every GPU has: products by cuBLASLt into float32
// accumulators in the workspace, then the program as stand-alone kernels.
#pragma once

#include "cuda/backend/passes.h"

namespace coda::cuda {

class Unfused {
 public:
  /// Compiles the kernels; `gpu` may be null, which fills the cache alone.
  Unfused(const Instance& instance, const std::string& architecture, const Gpu* gpu);

  void plan(const Planning& planning) const;

  /// The text that is compiled, without the device text.
  static Pointwise kernels(const Instance& instance);
  static Source source(const Instance& instance, const Pointwise& kernels);

 private:
  void plan_products(const Planning& planning, const std::vector<Product>& products,
                     const View& out, void* workspace) const;

  Pointwise kernels_;
  bool reads_around_;  // an update in place would meet a later read
  LoadedSource loaded_;
  Copier copier_;
};

}  // namespace coda::cuda

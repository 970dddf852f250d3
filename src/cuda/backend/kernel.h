// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's executable: picks the way each call runs, keeps what it has planned.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "call/backend.h"
#include "cuda/backend/fused.h"
#include "cuda/backend/unfused.h"

namespace coda::cuda {

/// What tests and tools choose beyond CompileOptions.
struct KernelOptions {
  bool fused = true;
  /// A configuration that must be taken: a fused call that it does not fit is refused.
  std::optional<ConfigWish> wish;
};

class CudaKernel final : public Executable {
 public:
  /// `gpu` may be null: then nothing is loaded, and calls can only be warmed, for sm_90a.
  CudaKernel(const Instance& instance, std::shared_ptr<const Gpu> gpu,
             const KernelOptions& options);

  /// Bytes for this call. Alignment counts (null is aligned): a call that only runs unfused needs
  /// its accumulators there.
  size_t workspace_bytes(const BoundCall& call) const override;
  void launch(void* stream, const BoundCall& call, void* workspace) const override;

  /// Compiles what the call runs, and says what that is: "fused pingpong 128x192 ..." or
  /// "unfused: reason".
  std::string warm(const BoundCall& call) const;
  /// The CUDA text of what the call runs first: the fused kernel, or the unfused way's own kernels.
  std::string text(const BoundCall& call) const;
  /// Fused kernels compiled so far, refused ones included.
  size_t fused_kernels() const { return fused_ ? fused_->compiled() : 0; }

 private:
  /// A call that was planned: its arguments, and the steps for one workspace.
  struct Planned {
    std::vector<uint64_t> arguments;
    size_t workspace_bytes = 0;
    std::optional<FusedCall> fused;
    std::shared_ptr<const Fused90::Kernel> kernel;
    std::string reason;  // why it runs unfused
    void* workspace = nullptr;
    std::shared_ptr<const Sequence> steps;
  };

  std::shared_ptr<Planned> find(const BoundCall& call) const;
  std::shared_ptr<Planned> decide(const BoundCall& call) const;
  void plan(const Planned& planned, const Planning& planning) const;
  const Unfused& unfused() const;

  const Instance instance_;
  const std::shared_ptr<const Gpu> gpu_;
  const KernelOptions options_;
  std::string architecture_;
  std::string never_fused_;  // the reason, where no call can be
  std::unique_ptr<const Fused90> fused_;
  mutable std::mutex unfused_mutex_;
  mutable std::unique_ptr<const Unfused> unfused_;
  mutable std::mutex planned_mutex_;
  mutable std::vector<std::shared_ptr<Planned>> planned_;
  mutable size_t next_ = 0;  // to be replaced
};

}  // namespace coda::cuda

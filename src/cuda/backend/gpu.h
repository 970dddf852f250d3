// SPDX-License-Identifier: Apache-2.0
// One GPU as the backend uses it, shared by all kernels of a process; and compiled kernels on it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/runtime/compiler.h"
#include "cuda/runtime/module.h"

namespace coda::cuda {

class Gpu {
 public:
  /// The GPU of an ordinal; Error{argument} where there is none, Error{device} without a driver.
  static std::shared_ptr<const Gpu> open(int ordinal);
  ~Gpu();

  const Context& context() const { return *context_; }
  const ContextPointer& shared_context() const { return context_; }
  const DeviceInfo& info() const { return info_; }
  /// cuBLASLt on this GPU, opened at its first use.
  LtHandle lt() const;

 private:
  explicit Gpu(int ordinal);

  ContextPointer context_;
  DeviceInfo info_;
  mutable std::mutex mutex_;
  mutable LtHandle lt_ = nullptr;
};

/// What NVRTC calls a GPU: sm_90a for compute capability 9.0.
std::string architecture_of(const DeviceInfo& info);

/// The kernels of one source: compiled through the cache, and loaded where there is a GPU. Without
/// one (null), compiling is all that is done. local_memory: CompilerOptions::local_memory.
class LoadedSource {
 public:
  struct Wanted {
    std::string kernel;
    int shared_bytes;  // dynamic
  };
  LoadedSource(const Source& source, const std::string& architecture, const Gpu* gpu,
               const std::vector<Wanted>& wanted, bool local_memory = false);
  FunctionHandle function(size_t index) const { return functions_.at(index); }

 private:
  std::unique_ptr<Module> module_;
  std::vector<FunctionHandle> functions_;
};

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/gpu.h"

#include <map>

#include "cuda/backend/products.h"

namespace coda::cuda {

std::shared_ptr<const Gpu> Gpu::open(int ordinal) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<const Gpu>> opened;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Gpu>& known = opened[ordinal];
  std::shared_ptr<const Gpu> gpu = known.lock();
  if (!gpu) {
    gpu = std::shared_ptr<const Gpu>(new Gpu(ordinal));
    known = gpu;
  }
  return gpu;
}

Gpu::Gpu(int ordinal) : context_(Context::retain(ordinal)), info_(device_info(ordinal)) {}

Gpu::~Gpu() {
  if (lt_ == nullptr) return;
  const ContextGuard guard(*context_);
  cublas_lt().cublasLtDestroy(lt_);
}

LtHandle Gpu::lt() const {
  const std::lock_guard lock(mutex_);
  if (lt_ == nullptr) {
    const ContextGuard guard(*context_);
    check_lt(cublas_lt().cublasLtCreate(&lt_), "cublasLtCreate");
  }
  return lt_;
}

std::string architecture_of(const DeviceInfo& info) {
  const std::string number = std::to_string(info.major) + std::to_string(info.minor);
  return "sm_" + number + (number == "90" ? "a" : "");
}

LoadedSource::LoadedSource(const Source& source, const std::string& architecture, const Gpu* gpu,
                           const std::vector<Wanted>& wanted, bool local_memory) {
  CompilerOptions options;
  options.local_memory = local_memory;
  options.architecture = architecture;
  const Cubin cubin = compile_source(source, options);
  if (gpu == nullptr) return;
  const ContextGuard guard(gpu->context());
  module_ = std::make_unique<Module>(cubin.image);
  for (const Wanted& kernel : wanted)
    functions_.push_back(
        module_->function(gpu->context(), kernel.kernel.c_str(), kernel.shared_bytes));
}

}  // namespace coda::cuda

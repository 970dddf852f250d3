// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu.h"

#include "cpu/kernel.h"

namespace coda {
namespace {

class CpuExecutable final : public Executable {
 public:
  explicit CpuExecutable(std::shared_ptr<const cpu::Kernel> kernel) : kernel_(std::move(kernel)) {}

  size_t workspace_bytes(const BoundCall& call) const override {
    return kernel_->workspace_bytes(call);
  }

  void launch(void*, const BoundCall& call, void* workspace) const override {
    kernel_->launch(call, static_cast<std::byte*>(workspace));
  }

 private:
  std::shared_ptr<const cpu::Kernel> kernel_;
};

}  // namespace

std::shared_ptr<const Executable> compile_for_cpu(const Instance& instance,
                                                  const CompileOptions& options) {
  const cpu::Options chosen{.fused = options.fused, .threads = options.threads};
  return std::make_shared<CpuExecutable>(cpu::compile(instance, chosen));
}

}  // namespace coda

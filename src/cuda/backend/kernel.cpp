// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/kernel.h"

#include <coda/error.h>

#include <cstdlib>

#include "base/log.h"

namespace coda::cuda {
namespace {

constexpr size_t kPlannedCalls = 64;  // of one kernel

/// All that a plan depends on: everything of a call but its scalars.
void arguments_of(const BoundCall& call, std::vector<uint64_t>& words) {
  words.clear();
  const auto add = [&](int64_t x) { words.push_back(static_cast<uint64_t>(x)); };
  const auto add_binding = [&](const Binding& binding) {
    add(binding.rows), add(binding.columns);
    add(static_cast<int64_t>(binding.segments.size()) * 2 + (binding.axis == Axis::rows));
    for (const Segment& s : binding.segments) {
      add(s.begin), add(s.end);
      words.push_back(reinterpret_cast<uintptr_t>(s.view.data));
      add(s.view.row_stride), add(s.view.column_stride), add(static_cast<int64_t>(s.view.dtype));
    }
  };
  add(call.m), add(call.n);
  for (const Binding& binding : call.inputs) add_binding(binding);
  for (const std::vector<Product>& products : call.products) {
    add(static_cast<int64_t>(products.size()));
    for (const Product& product : products)
      add(product.k), add_binding(product.a), add_binding(product.b);
  }
  for (const Binding& binding : call.outputs) add_binding(binding);
}

}  // namespace

CudaKernel::CudaKernel(const Instance& instance, std::shared_ptr<const Gpu> gpu,
                       const KernelOptions& options)
    : instance_(instance),
      gpu_(std::move(gpu)),
      options_(options),
      architecture_(gpu_ ? architecture_of(gpu_->info()) : "sm_90a") {
  if (!options.fused)
    never_fused_ = "as asked";
  else if (architecture_ != "sm_90a")
    never_fused_ = "the GPU is " + architecture_ + ", and fused kernels need sm_90a";
  else if (const auto problem = fused_problem(instance_))
    never_fused_ = *problem;
  else
    fused_ = std::make_unique<Fused90>(instance_, options.wish.value_or(ConfigWish{}), gpu_.get(),
                                       gpu_ ? gpu_->info().multiprocessors : kHopperProcessors);
}

const Unfused& CudaKernel::unfused() const {
  const std::lock_guard lock(unfused_mutex_);
  if (!unfused_) unfused_ = std::make_unique<Unfused>(instance_, architecture_, gpu_.get());
  return *unfused_;
}

std::shared_ptr<CudaKernel::Planned> CudaKernel::decide(const BoundCall& call) const {
  auto planned = std::make_shared<Planned>();
  planned->reason = never_fused_;
  if (fused_) {
    auto accepted = fused_->accept(call);
    if (auto* reason = std::get_if<std::string>(&accepted)) {
      planned->reason = std::move(*reason);
    } else {
      planned->fused = std::get<FusedCall>(std::move(accepted));
      planned->kernel = fused_->find(*planned->fused, &planned->reason);
      if (!planned->kernel && options_.wish)
        throw Error(ErrorKind::unsupported, "[" + instance_.program->name + "] configuration",
                    "a configuration that fits the call and the wish", planned->reason,
                    "leave the configuration to coda");
    }
  }
  Workspace work(nullptr);
  plan(*planned, {instance_, call, gpu_.get(), work, nullptr});
  planned->workspace_bytes = work.used();
  if (!planned->kernel && options_.fused && log_enabled(LogLevel::info))
    log(LogLevel::info, "[" + instance_.program->name + "] runs unfused: " + planned->reason);
  return planned;
}

void CudaKernel::plan(const Planned& planned, const Planning& planning) const {
  if (planned.kernel)
    fused_->plan(planning, *planned.fused, *planned.kernel);
  else
    unfused().plan(planning);
}

std::shared_ptr<CudaKernel::Planned> CudaKernel::find(const BoundCall& call) const {
  thread_local std::vector<uint64_t> arguments;
  arguments_of(call, arguments);
  {
    const std::lock_guard lock(planned_mutex_);
    for (const auto& planned : planned_)
      if (planned->arguments == arguments) return planned;
  }
  auto planned = decide(call);
  planned->arguments = arguments;
  const std::lock_guard lock(planned_mutex_);
  if (planned_.size() < kPlannedCalls)
    planned_.push_back(planned);
  else
    planned_[next_++ % kPlannedCalls] = planned;
  return planned;
}

size_t CudaKernel::workspace_bytes(const BoundCall& call) const {
  return find(call)->workspace_bytes;
}

void CudaKernel::launch(void* stream, const BoundCall& call, void* workspace) const {
  const std::shared_ptr<Planned> planned = find(call);
  std::shared_ptr<const Sequence> steps;
  {
    const std::lock_guard lock(planned_mutex_);
    if (planned->workspace == workspace) steps = planned->steps;
  }
  if (!steps) {
    auto made = std::make_shared<Sequence>();
    Workspace work(workspace);
    // The driver checks the addresses of tensor maps against the current context.
    const ContextGuard guard(gpu_->context());
    plan(*planned, {instance_, call, gpu_.get(), work, made.get()});
    steps = std::move(made);
    const std::lock_guard lock(planned_mutex_);
    planned->workspace = workspace;
    planned->steps = steps;
  }
  steps->run(*gpu_, static_cast<StreamHandle>(stream), call.scalars);
}

std::string CudaKernel::warm(const BoundCall& call) const {
  const std::shared_ptr<Planned> planned = find(call);
  if (!planned->kernel) return "unfused: " + planned->reason;
  return way_of(planned->kernel->config, planned->fused->splits, planned->fused->tuned);
}

std::string CudaKernel::text(const BoundCall& call) const {
  const std::shared_ptr<Planned> planned = find(call);
  if (planned->kernel)
    return Fused90::source(instance_, planned->kernel->config, planned->fused->seams).text;
  return Unfused::source(instance_, Unfused::kernels(instance_)).text;
}

}  // namespace coda::cuda

namespace coda {

std::shared_ptr<const Executable> compile_for_cuda(const Instance& instance, Device device,
                                                   const CompileOptions& options) {
  cuda::KernelOptions chosen;
  chosen.fused = options.fused;
  if (const char* wish = std::getenv("CODA_CONFIG"); wish != nullptr && *wish != '\0')
    chosen.wish = cuda::parse_config(wish);
  return std::make_shared<cuda::CudaKernel>(instance, cuda::Gpu::open(device.index), chosen);
}

}  // namespace coda

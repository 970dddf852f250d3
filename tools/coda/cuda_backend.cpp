// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cuda.h"
#include "cuda/backend/ahead.h"
#include "cuda/backend/kernel.h"
#include "cuda/check/check.h"
#include "cuda/lower/split.h"
#include "cuda_open.h"

namespace coda::tool {
namespace {

using cuda::ConfigWish;

/// The layouts that a program's product has in training: what is written stands on forward
/// products, what is derived on gradients of inputs; what a weight's gradient is made by on all.
std::vector<const char*> layouts_of(const check::NamedProgram& program, const Instance& instance) {
  if (cuda::split_form(instance)) return {"NT", "NN", "TN"};
  return {program.name == program.program.name ? "NT" : "NN"};
}

}  // namespace

std::optional<ConfigWish> wish_of(const std::string& config) {
  const char* variable = std::getenv("CODA_CONFIG");
  const std::string text = !config.empty() ? config : variable != nullptr ? variable : "";
  if (text.empty()) return std::nullopt;
  return cuda::parse_config(text);
}

std::shared_ptr<const cuda::Gpu> open_gpu() {
  try {
    return cuda::Gpu::open(0);
  } catch (const Error& error) {
    throw Error(ErrorKind::device, "--device cuda", error.expected(),
                std::string(error.where()) + ": " + error.got(),
                "see coda doctor, or use --device cpu");
  }
}

double slot_ms(const CudaBench& options) { return std::min(options.seconds * 100, 300.0); }

std::vector<check::Report> check_on_cuda(const CudaCheck& options) {
  constexpr int kCases = 4, kAllCases = 12;
  cuda::CheckOptions engine;
  cuda::TaskOptions& tasks = engine.tasks;
  tasks.programs = options.programs;
  tasks.sizes = options.sizes;
  tasks.cases = options.all ? kAllCases : kCases;
  tasks.generated = options.generated;
  tasks.seed = options.seed;
  tasks.wish = wish_of(options.config);
  tasks.only = options.only;
  tasks.type = options.type;
  tasks.number = options.task;
  engine.threads = options.threads;
  engine.launches = options.launches;
  engine.seconds = options.seconds;
  engine.command = options.command;
  engine.progress = options.progress;
  return cuda::check_on_gpu(open_gpu(), engine);
}

CudaText cuda_text(const Instance& instance, int64_t m, int64_t n, int64_t k,
                   const std::string& layout, const std::string& config) {
  cuda::Arena nowhere(nullptr, 0);
  cuda::CallSize size{m, n, {}, layout};
  if (k > 0) size.depths = {k};
  const BoundCall call = cuda::make_call(nowhere, instance, size);
  cuda::KernelOptions options;
  options.wish = wish_of(config);
  const cuda::CudaKernel kernel(instance, nullptr, options);
  const std::string way = kernel.warm(call);
  return {way, kernel.text(call)};
}

std::vector<CompiledKernel> compile_for_cache(const std::vector<check::NamedProgram>& programs,
                                              const std::vector<Instance>& instances,
                                              const std::string& config, int workers,
                                              const std::function<void(size_t, size_t)>& progress) {
  constexpr size_t kAtOnce = 8;  // programs between two words of progress
  const ConfigWish wish = wish_of(config).value_or(ConfigWish{});
  std::vector<CompiledKernel> kernels;
  const auto add = [&](size_t program, const std::string& layout, const std::string& way,
                       const cuda::AheadResult& result) {
    for (const cuda::KernelResources& used : result.kernels) {
      const CompiledKernel kernel{programs[program].name,
                                  layout,
                                  way,
                                  used.name,
                                  used.registers,
                                  used.spill_store_bytes + used.spill_load_bytes,
                                  result.from_cache};
      const auto same = [&](const CompiledKernel& other) {
        return other.program == kernel.program && other.layout == layout && other.way == way &&
               other.kernel == kernel.kernel;
      };
      if (std::none_of(kernels.begin(), kernels.end(), same)) kernels.push_back(kernel);
    }
  };
  for (size_t from = 0; from < programs.size(); from += kAtOnce) {
    progress(from, programs.size());
    const size_t to = std::min(from + kAtOnce, programs.size());
    std::vector<cuda::AheadCall> calls;
    std::vector<std::pair<size_t, std::string>> labels;
    std::vector<const Instance*> unfused;
    for (size_t i = from; i < to; ++i) {
      unfused.push_back(&instances[i]);
      for (const char* layout : layouts_of(programs[i], instances[i]))
        for (cuda::UsualCall& usual : cuda::usual_calls(instances[i], layout)) {
          labels.emplace_back(i, usual.layout);
          calls.push_back({&instances[i], std::move(usual.call), wish});
        }
    }
    const std::vector<cuda::AheadResult> results = cuda::compile_ahead(calls, workers);
    const std::vector<cuda::AheadResult> others = cuda::compile_unfused_ahead(unfused, workers);
    for (size_t i = from; i < to; ++i) {
      for (size_t c = 0; c < calls.size(); ++c)
        if (labels[c].first == i && results[c].config)
          add(i, labels[c].second,
              cuda::way_of(*results[c].config, results[c].splits, results[c].tuned), results[c]);
      // Every program has an unfused way; a reason stands where it is the only one.
      std::string way = "unfused";
      for (size_t c = 0; c < calls.size(); ++c)
        if (labels[c].first == i && !results[c].config) way = "unfused: " + results[c].reason;
      add(i, "", way, others[i - from]);
    }
  }
  return kernels;
}

}  // namespace coda::tool

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cuda.h"
#include "cuda/backend/ahead.h"
#include "cuda/backend/kernel.h"
#include "cuda/check/bench.h"
#include "cuda/check/check.h"
#include "cuda/check/large.h"
#include "cuda/codegen/split.h"

namespace coda::tool {
namespace {

using cuda::ConfigWish;

/// --config, or CODA_CONFIG, or nothing.
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

/// The shapes of models whose names have `only` in them.
std::vector<cuda::BenchRow> rows_named(const std::string& only) {
  std::vector<cuda::BenchRow> rows = cuda::model_rows();
  std::erase_if(
      rows, [&](const cuda::BenchRow& row) { return row.name.find(only) == std::string::npos; });
  return rows;
}

std::string size_text(const cuda::CallSize& size) {
  return fmt::format("{}x{}x{}", size.m, size.n, size.depth());
}

void print_row(const cuda::LargeResult& result) {
  fmt::print("{:<24} {:>20} {:>7} {:>8} {:>7.1f}  {:<6}  {}\n", result.name, size_text(result.size),
             result.samples, fmt::format("{:.3g}", result.ratio), result.seconds,
             result.ok ? "ok" : "FAILED", result.way);
  if (!result.ok) fmt::print("  {}\n", result.message);
  for (const std::string& output : result.uncovered)
    fmt::print("  not compared, too large for float64: '{}'\n", output);
  std::fflush(stdout);
}

void print_row(const cuda::BenchResult& result, bool heading, bool first_use) {
  if (heading)
    fmt::print("{:<24} {:>20} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6}  {}\n", "", "M x N x K",
               "cuBLAS us", "+ kernels", "coda us", "ratio", "/ sep.", "TF/s", "configuration");
  const cuda::Timed* const bare = result.find("cuBLAS");
  const cuda::Timed* const separate = result.find("cuBLAS + kernels");
  const auto number = [](const cuda::Timed* timed) {
    return timed ? fmt::format("{:.1f}", timed->microseconds) : std::string("-");
  };
  for (const cuda::Timed& coda : result.times) {
    if (coda.name != "coda") continue;
    const auto ratio = [&](const cuda::Timed* to) {
      return to ? fmt::format("{:.3f}", coda.microseconds / to->microseconds) : std::string("-");
    };
    fmt::print("{:<24} {:>20} {:>9} {:>9} {:>9.1f} {:>6} {:>6} {:>6.0f}  {}\n", result.name,
               fmt::format("{}x{}x{}", result.m, result.n, result.k), number(bare),
               number(separate), coda.microseconds, ratio(bare), ratio(separate),
               result.flops() / coda.microseconds * 1e-6, coda.way);
    if (first_use) fmt::print("first use: {:.3f} s\n", coda.first_use_seconds);
  }
  std::fflush(stdout);
}

/// The layouts that a program's product has in training: what is written stands on forward
/// products, what is derived on gradients of inputs; what a weight's gradient is made by on all.
std::vector<const char*> layouts_of(const check::NamedProgram& program, const Instance& instance) {
  if (cuda::split_form(instance)) return {"NT", "NN", "TN"};
  return {program.name == program.program.name ? "NT" : "NN"};
}

Json as_json(const cuda::LargeResult& result) {
  return {{"name", result.name},
          {"ok", result.ok},
          {"m", result.size.m},
          {"n", result.size.n},
          {"k", result.size.depth()},
          {"way", result.way},
          {"samples", result.samples},
          {"elements", result.elements},
          {"worst_error_over_tolerance", result.ratio},
          {"not_compared", result.uncovered},
          {"message", result.message},
          {"seconds", result.seconds}};
}

Json as_json(const cuda::BenchResult& result) {
  Json times = Json::array();
  for (const cuda::Timed& timed : result.times)
    times.push_back({{"name", timed.name},
                     {"first_use_seconds", timed.first_use_seconds},
                     {"way", timed.way},
                     {"median_seconds", timed.microseconds * 1e-6}});
  return {{"name", result.name},
          {"m", result.m},
          {"n", result.n},
          {"k", result.k},
          {"results", std::move(times)}};
}

}  // namespace

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

int check_suite_on_cuda(const Shell& shell, const CudaSuite& options) {
  const std::vector<cuda::BenchRow> rows = rows_named(options.only);
  if (rows.empty())
    throw Error(ErrorKind::argument, "--only", "part of the name of a row, such as 'swiglu'",
                "'" + options.only + "', which no row has", "give another, or none");
  cuda::LargeOptions engine;
  engine.wish = wish_of(options.config);
  engine.seed = options.seed;
  engine.threads = options.threads;
  const auto gpu = open_gpu();
  if (!shell.json)
    fmt::print("{:<24} {:>20} {:>7} {:>8} {:>7}  {:<6}  {}\n", "", "M x N x K", "samples", "worst",
               "seconds", "", "configuration");
  Json list = Json::array();
  int failures = 0;
  const auto results = cuda::verify_rows(
      gpu, rows, engine, [&](const cuda::BenchRow& row) { progress(shell, row.name); },
      [&](const cuda::LargeResult& result) {
        progress(shell, "");
        failures += !result.ok;
        if (shell.json)
          list.push_back(as_json(result));
        else
          print_row(result);
      });
  const size_t skipped = rows.size() - results.size();
  if (shell.json)
    print_json({{"ok", failures == 0},
                {"device", "cuda"},
                {"gpu", gpu->info().name},
                {"seed", options.seed},
                {"skipped", skipped},
                {"rows", std::move(list)}});
  else
    fmt::print(
        "\n{} calls, {} failed; seed {}. Worst: the largest error / tolerance in samples.{}\n",
        results.size(), failures, options.seed,
        skipped > 0 ? fmt::format(" {} were left out, since the GPU failed.", skipped) : "");
  return failures == 0 ? kOk : kFailed;
}

int bench_on_cuda(const Shell& shell, const std::vector<Instance>& instances,
                  const CudaBench& options) {
  cuda::BenchOptions engine;
  engine.wish = wish_of(options.config);
  engine.candidates = options.candidates;
  // A tenth of the time in each slot of three contenders and three rounds.
  engine.slot_ms = std::min(options.seconds * 100, 300.0);
  const auto gpu = open_gpu();
  std::vector<cuda::BenchRow> rows;
  if (instances.empty()) rows = rows_named(options.only);
  for (const Instance& instance : instances)
    rows.push_back(
        {instance.program->name, instance, {options.m, options.n, {options.k}, options.layout}});
  cuda::Arena arena(gpu, cuda::kBenchBytes);
  Json list = Json::array(), host;
  if (instances.empty() && options.only.empty()) {
    const cuda::HostTimes times = cuda::time_host(gpu, arena);
    host = {{"launch_seconds", times.launch * 1e-6}, {"empty_seconds", times.empty * 1e-6}};
    if (!shell.json)
      fmt::print("host time of a launch: {:.2f} us; of an empty kernel: {:.2f} us\n", times.launch,
                 times.empty);
  }
  double logarithms = 0;
  int products = 0;
  for (const cuda::BenchRow& row : rows) {
    progress(shell, row.name);
    const cuda::BenchResult result = cuda::bench(gpu, arena, row, engine);
    progress(shell, "");
    const cuda::Timed* const bare = result.find("cuBLAS");
    const cuda::Timed* const coda = result.find("coda");
    if (row.name.starts_with("gemm ") && bare && coda)
      logarithms += std::log(coda->microseconds / bare->microseconds), ++products;
    if (shell.json)
      list.push_back(as_json(result));
    else
      print_row(result, &row == &rows.front(), !instances.empty());
  }
  if (shell.json)
    print_json({{"device", "cuda"},
                {"gpu", gpu->info().name},
                {"host", std::move(host)},
                {"rows", std::move(list)}});
  else if (products > 1)
    fmt::print("products: geometric mean {:.3f} of {} shapes\n", std::exp(logarithms / products),
               products);
  return kOk;
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
              "fused " + cuda::to_string(*results[c].config, results[c].splits), results[c]);
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

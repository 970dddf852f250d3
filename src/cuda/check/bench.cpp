// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/bench.h"

#include <coda/error.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "cuda/backend/ahead.h"
#include "cuda/backend/kernel.h"
#include "cuda/backend/tuned.h"

namespace coda::cuda {
namespace {

/// The instance with accumulators that lie in memory as T.
Instance from_memory(const Instance& instance) {
  ir::Program program = *instance.program;
  for (ir::Input& input : program.inputs)
    if (input.kind == ir::Input::Kind::accumulator) {
      input.kind = ir::Input::Kind::tensor;
      input.type = {true, {}};
    }
  return {std::make_shared<const ir::Program>(std::move(program)), instance.type, instance.symbols};
}

/// The configurations to time: the model's choice, or its best few.
std::vector<std::optional<ConfigWish>> wishes_of(const Instance& instance, const BoundCall& call,
                                                 const Gpu& gpu, const BenchOptions& options) {
  std::vector<std::optional<ConfigWish>> wishes{options.wish};
  if (options.candidates < 2 || fused_problem(instance)) return wishes;
  const Fused90 fused(instance, {}, nullptr, gpu.info().multiprocessors);
  const auto accepted = fused.accept(call);
  const auto* mainloop = std::get_if<FusedCall>(&accepted);
  if (!mainloop) return wishes;
  wishes.clear();
  for (const Candidate& c :
       candidates(fused.shape(), mainloop->problem, options.wish.value_or(ConfigWish{})))
    if (wishes.size() < static_cast<size_t>(options.candidates))
      wishes.emplace_back(exact_wish(to_string(c.config, c.splits)));
  return wishes;
}

}  // namespace

const Timed* BenchResult::find(std::string_view wanted) const {
  for (const Timed& timed : times)
    if (timed.name == wanted) return &timed;
  return nullptr;
}

int64_t bytes_of(const BoundCall& call) {
  int64_t bytes = 0;
  const auto add = [&](const Binding& binding) {
    if (!binding.segments.empty())
      bytes += binding.rows * binding.columns *
               static_cast<int64_t>(size_of(binding.segments[0].view.dtype));
  };
  for (const Binding& binding : call.inputs) add(binding);
  for (const Binding& binding : call.outputs) add(binding);
  bool first = true;  // accumulators share A
  for (const std::vector<Product>& products : call.products) {
    for (const Product& product : products) {
      if (first) add(product.a);
      add(product.b);
    }
    first = first && products.empty();
  }
  return bytes;
}

void compile_rows(std::span<const BenchRow> rows, const BenchOptions& options,
                  int multiprocessors) {
  std::vector<AheadCall> calls;
  std::vector<Instance> apart;
  for (const BenchRow& row : rows) {
    auto accepted = mainloop_call(row, multiprocessors);
    if (auto* call = std::get_if<FusedCall>(&accepted))
      calls.push_back({&row.instance, std::move(*call), options.wish.value_or(ConfigWish{})});
    apart.push_back(from_memory(row.instance));
  }
  compile_ahead(calls);
  std::vector<const Instance*> pointers;
  for (const Instance& instance : apart) pointers.push_back(&instance);
  compile_unfused_ahead(pointers);
}

BenchResult bench(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const BenchRow& row,
                  const BenchOptions& options) {
  const CallSize& size = row.size;
  arena.reset();
  const auto call = std::make_shared<const BoundCall>(make_call(arena, row.instance, size));
  const auto accumulators =
      static_cast<int64_t>(std::count_if(call->products.begin(), call->products.end(),
                                         [](const auto& products) { return !products.empty(); }));
  BenchResult result;
  result.name = row.name, result.row_class = row.row_class;
  result.m = size.m, result.n = size.n * std::max<int64_t>(accumulators, 1);
  result.k = size.depth(), result.bytes = bytes_of(*call);
  std::vector<Contender> contenders;
  // These first: nothing has been compiled in this process when their first use is clocked.
  for (const auto& wish : wishes_of(row.instance, *call, *gpu, options)) {
    try {
      contenders.push_back(coda_contender(gpu, arena, row.instance, call, "coda", wish));
    } catch (const Error& error) {  // of several configurations, some may be refused
      if (error.kind() != ErrorKind::unsupported || options.candidates < 2) throw;
    }
  }
  if (accumulators > 0 && size.depth() > 0) {
    contenders.push_back(bare_contender(gpu, arena, size, result.n, row.instance.type));
    const std::function<void()> bare = contenders.back().launch;
    const Instance memory = from_memory(row.instance);
    const auto apart = std::make_shared<const BoundCall>(make_call(arena, memory, size));
    Contender separate = coda_contender(gpu, arena, memory, apart, "cuBLAS + kernels", {});
    separate.launch = [bare, kernels = std::move(separate.launch)] { bare(), kernels(); };
    separate.timed.way.clear();
    // A product that is only stored needs no kernel after it.
    if (memory.program->nodes.size() > 1) contenders.push_back(std::move(separate));
  }
  take_turns(gpu, arena, contenders, options.turns);
  for (Contender& c : contenders) result.times.push_back(std::move(c.timed));
  return result;
}

HostTimes time_host(const std::shared_ptr<const Gpu>& gpu, Arena& arena) {
  constexpr int kLaunches = 200, kTurns = 20;  // fewer launches than the driver queues
  const auto time = [&](const std::function<void()>& launch) {
    std::vector<double> times;
    for (int turn = 0; turn < kTurns; ++turn) {
      arena.synchronise();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunches; ++i) launch();
      const std::chrono::duration<double, std::micro> spent =
          std::chrono::steady_clock::now() - start;
      times.push_back(spent.count() / kLaunches);
    }
    arena.synchronise();
    return median(times);
  };
  arena.reset();
  for (const BenchRow& row : kernel_rows()) {
    if (row.instance.program->name != "linear") continue;
    const LoadedSource empty({"empty", "extern \"C\" __global__ void empty() {}"},
                             architecture_of(gpu->info()), gpu.get(), {{"empty", 0}});
    const BoundCall call = make_call(arena, row.instance, {128, 128, {64}, "NT"});
    const CudaKernel kernel(row.instance, gpu, {});
    void* const workspace = arena.take(static_cast<int64_t>(kernel.workspace_bytes(call)));
    Launch how;
    how.stream = arena.stream();
    return {time([&] { kernel.launch(arena.stream(), call, workspace); }),
            time([&] { launch(gpu->context(), empty.function(0), how, {}); })};
  }
  return {};
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/bench.h"

#include <coda/error.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "check/programs.h"
#include "cuda/backend/kernel.h"
#include "cuda/backend/products.h"

namespace coda::cuda {
namespace {

/// Milliseconds a launch, over launches that take `slot_ms` together.
class Timer {
 public:
  Timer(const std::shared_ptr<const Gpu>& gpu, StreamHandle stream)
      : start_(gpu->shared_context()), stop_(gpu->shared_context()), stream_(stream) {}
  double run(const std::function<void()>& launch, int count) const {
    start_.record(stream_);
    for (int i = 0; i < count; ++i) launch();
    stop_.record(stream_);
    stop_.synchronise();
    return elapsed_ms(start_, stop_) / count;
  }
  int count_for(const std::function<void()>& launch, double slot_ms) const {
    run(launch, 2);
    return std::clamp(static_cast<int>(slot_ms / run(launch, 3)) + 1, 3, 100000);
  }

 private:
  Event start_, stop_;
  StreamHandle stream_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

LtType lt_type(DType type) {
  return type == DType::f32 ? kLtF32 : type == DType::bf16 ? kLtBf16 : kLtF16;
}

/// One product of cuBLASLt that stores the type of its operands.
class Bare {
 public:
  Bare(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const CallSize& size, int64_t n,
       DType type)
      : gpu_(gpu), arena_(arena), plan_(*gpu, shape_of(size, n, type)) {
    a_ = arena.tensor(size.m * size.depth(), type, check::Source::normal, 1);
    b_ = arena.tensor(n * size.depth(), type, check::Source::normal, 1);
    out_ = arena.take(size.m * n * static_cast<int64_t>(size_of(type)));
    workspace_ = arena.take(kProductWorkspace);
  }
  void run() const { plan_.run(*gpu_, a_, b_, out_, workspace_, arena_.stream()); }

 private:
  static ProductShape shape_of(const CallSize& size, int64_t n, DType type) {
    ProductShape shape;
    shape.m = size.m, shape.n = n, shape.k = size.depth(), shape.out_pitch = n;
    shape.type = shape.out_type = lt_type(type);
    shape.a = {!size.turned_a(), size.turned_a() ? size.m : shape.k, 256};
    shape.b = {!size.turned_b(), size.turned_b() ? n : shape.k, 256};
    shape.out_alignment = 256;
    return shape;
  }

  std::shared_ptr<const Gpu> gpu_;
  Arena& arena_;
  ProductPlan plan_;
  const std::byte *a_, *b_;
  std::byte *out_, *workspace_;
};

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

struct Contender {
  Timed timed;
  std::function<void()> launch;
  std::shared_ptr<const void> owned;
  int count = 0;
  std::vector<double> times;
};

/// The kernel on its call, or what it was refused for.
Contender coda_contender(const std::shared_ptr<const Gpu>& gpu, const Arena& arena,
                         const Instance& instance, const std::shared_ptr<const BoundCall>& call,
                         const std::string& name, const std::optional<ConfigWish>& wish) {
  struct Held {
    Held(const Instance& instance, const std::shared_ptr<const Gpu>& gpu,
         const KernelOptions& options)
        : kernel(instance, gpu, options) {}
    CudaKernel kernel;
    Memory workspace;
  };
  KernelOptions options;
  options.wish = wish;
  const auto start = std::chrono::steady_clock::now();
  auto held = std::make_shared<Held>(instance, gpu, options);
  Contender contender{{name, held->kernel.warm(*call)}, {}, held, 0, {}};
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  contender.timed.first_use_seconds = spent.count();
  held->workspace = Memory(gpu->shared_context(), held->kernel.workspace_bytes(*call));
  contender.launch = [held = held.get(), call, stream = arena.stream()] {
    held->kernel.launch(stream, *call, held->workspace.data());
  };
  return contender;
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
      wishes.emplace_back(parse_config(to_string(c.config, c.splits)));
  return wishes;
}

}  // namespace

const Timed* BenchResult::find(std::string_view wanted) const {
  for (const Timed& timed : times)
    if (timed.name == wanted) return &timed;
  return nullptr;
}

std::vector<BenchRow> model_rows() {
  constexpr int64_t kTokens = 16384;
  std::map<std::string, Instance> instances;
  for (const check::NamedProgram& named : check::all_programs())
    instances.emplace(named.name, check::instance_of(named.program, DType::bf16));
  std::vector<BenchRow> rows;
  const auto add = [&](const std::string& name, const char* program, const char* layout, int64_t m,
                       int64_t n, std::vector<int64_t> depths) {
    rows.push_back({name, instances.at(program), {m, n, std::move(depths), layout}});
  };
  for (const auto& [d, f] : {std::pair<int64_t, int64_t>{2048, 5632}, {4096, 11008}}) {
    const struct {
      const char* name;
      int64_t out, in;
    } layers[] = {{"out", d, d}, {"gate_up", 2 * f, d}, {"down", d, f}, {"qkv", 3 * d, d}};
    const std::string at = " " + std::to_string(d);
    for (const auto& [name, out, in] : layers) {
      add("gemm fwd " + (name + at), "linear", "NT", kTokens, out, {in});
      add("gemm dgrad " + (name + at), "linear", "NN", kTokens, in, {out});
      add("gemm wgrad " + (name + at), "linear", "TN", out, in, {kTokens});
    }
    add("residual_rms out" + at, "residual_rms", "NT", kTokens, d, {d});
    add("residual_rms down" + at, "residual_rms", "NT", kTokens, d, {f});
    add("rmsnorm_swiglu" + at, "rmsnorm_swiglu", "NT", kTokens, f, {d});
    add("rmsnorm_rope" + at, "rmsnorm_rope", "NT", kTokens, 3 * d, {d});
    add("swiglu bwd" + at, "rmsnorm_swiglu.bwd(d_y)", "NN", kTokens, f, {d});
    add("norm bwd gate_up" + at, "residual_rms.bwd(d_h)", "NN", kTokens, d, {f, f});
    add("norm bwd qkv" + at, "residual_rms.bwd(d_h)", "NN", kTokens, d, {3 * d});
    add("accumulate wgrad" + at, "accumulate", "TN", d, f, {kTokens});
  }
  add("small wgrad 1024", "linear", "TN", 1024, 1024, {kTokens});
  add("small accumulate 1024", "accumulate", "TN", 1024, 1024, {kTokens});
  add("lse_target 2048", "lse_target", "NT", 8192, 128256, {2048});
  return rows;
}

BenchResult bench(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const BenchRow& row,
                  const BenchOptions& options) {
  const CallSize& size = row.size;
  arena.reset();
  const auto call = std::make_shared<const BoundCall>(make_call(arena, row.instance, size));
  const auto accumulators =
      static_cast<int64_t>(std::count_if(call->products.begin(), call->products.end(),
                                         [](const auto& products) { return !products.empty(); }));
  BenchResult result{
      row.name, size.m, size.n * std::max<int64_t>(accumulators, 1), size.depth(), {}};
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
    const auto bare = std::make_shared<Bare>(gpu, arena, size, result.n, row.instance.type);
    Contender product;
    product.timed.name = "cuBLAS";
    product.launch = [bare] { bare->run(); };
    contenders.push_back(std::move(product));
    const Instance memory = from_memory(row.instance);
    const auto apart = std::make_shared<const BoundCall>(make_call(arena, memory, size));
    Contender separate = coda_contender(gpu, arena, memory, apart, "cuBLAS + kernels", {});
    separate.launch = [bare, kernels = std::move(separate.launch)] { bare->run(), kernels(); };
    separate.timed.way.clear();
    // A product that is only stored needs no kernel after it.
    if (memory.program->nodes.size() > 1) contenders.push_back(std::move(separate));
  }
  const Timer timer(gpu, arena.stream());
  for (Contender& c : contenders) c.count = timer.count_for(c.launch, options.slot_ms);
  for (int round = 0; round < options.rounds; ++round)
    for (Contender& c : contenders) c.times.push_back(timer.run(c.launch, c.count));
  for (Contender& c : contenders) {
    c.timed.microseconds = median(c.times) * 1e3;
    result.times.push_back(std::move(c.timed));
  }
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
  for (const BenchRow& row : model_rows()) {
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

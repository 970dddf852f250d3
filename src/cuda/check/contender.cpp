// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/contender.h"

#include <algorithm>
#include <chrono>

#include "cuda/backend/kernel.h"
#include "cuda/backend/products.h"

namespace coda::cuda {
namespace {

/// Milliseconds a launch, over launches that take a slot together.
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

LtType lt_type(DType type) {
  return type == DType::f32 ? kLtF32 : type == DType::bf16 ? kLtBf16 : kLtF16;
}

class Bare {
 public:
  Bare(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const CallSize& size, int64_t n,
       DType type)
      : gpu_(gpu), arena_(arena), plan_(*gpu, shape_of(size, n, type)) {
    a_ = arena.tensor(size.m * size.depth(), type, check::Source::normal, 1);
    b_ = arena.tensor(n * size.depth(), type, check::Source::normal, 1, size.weight_scale());
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

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

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
  std::string way = held->kernel.warm(*call);
  way.resize(std::min(way.find('\n'), way.size()));  // of what ptxas says, the first line
  Contender contender{{name, std::move(way)}, {}, held};
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  contender.timed.first_use_seconds = spent.count();
  held->workspace = Memory(gpu->shared_context(), held->kernel.workspace_bytes(*call));
  contender.launch = [held = held.get(), call, stream = arena.stream()] {
    held->kernel.launch(stream, *call, held->workspace.data());
  };
  return contender;
}

Contender bare_contender(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const CallSize& size,
                         int64_t n, DType type) {
  const auto bare = std::make_shared<Bare>(gpu, arena, size, n, type);
  return {{"cuBLAS"}, [bare] { bare->run(); }, bare};
}

void take_turns(const std::shared_ptr<const Gpu>& gpu, const Arena& arena,
                std::vector<Contender>& contenders, const Turns& turns) {
  const Timer timer(gpu, arena.stream());
  std::vector<int> counts;
  std::vector<std::vector<double>> times(contenders.size());
  for (const Contender& c : contenders) counts.push_back(timer.count_for(c.launch, turns.slot_ms));
  for (int round = 0; round < turns.rounds; ++round)
    for (size_t i = 0; i < contenders.size(); ++i)
      times[i].push_back(timer.run(contenders[i].launch, counts[i]));
  for (size_t i = 0; i < contenders.size(); ++i)
    contenders[i].timed.microseconds = median(times[i]) * 1e3;
}

}  // namespace coda::cuda

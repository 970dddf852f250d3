// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/lane.h"

#include <coda/error.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <thread>

namespace coda::cuda {
namespace {

constexpr int kFailed = 1;  // the exit code where nothing can follow

/// Device addresses of host memory that was copied as blocks.
class Mapping {
 public:
  void add(std::span<std::byte> host, std::byte* device) { blocks_.push_back({host, device}); }
  void apply(BoundCall& call) const {
    for (Binding& binding : call.inputs) apply(binding);
    for (Binding& binding : call.outputs) apply(binding);
    for (std::vector<Product>& products : call.products)
      for (Product& product : products) apply(product.a), apply(product.b);
  }

 private:
  struct Block {
    std::span<std::byte> host;
    std::byte* device;
  };
  void apply(Binding& binding) const {
    for (Segment& segment : binding.segments)
      for (const Block& block : blocks_)
        if (segment.view.data >= block.host.data() &&
            segment.view.data < block.host.data() + block.host.size()) {
          segment.view.data = block.device + (segment.view.data - block.host.data());
          break;
        }
  }

  std::vector<Block> blocks_;
};

/// Where each block goes in a buffer: at the same address modulo 256.
std::vector<size_t> offsets_of(const std::vector<std::span<std::byte>>& blocks, size_t* total) {
  std::vector<size_t> offsets;
  size_t at = 0;
  for (const auto& block : blocks) {
    at = (at + 255) / 256 * 256;
    offsets.push_back(at + reinterpret_cast<uintptr_t>(block.data()) % 256);
    at = offsets.back() + block.size();
  }
  *total = at;
  return offsets;
}

BoundCall bind_drawn(const Instance& instance, check::DrawnCall& drawn) {
  try {
    return bind(instance, drawn.arguments(), Device{});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::argument) throw;
    drawn.tell_sizes();
    return bind(instance, drawn.arguments(), Device{});
  }
}

std::vector<int64_t> symbols_of(const Task& task) {
  std::vector<int64_t> symbols = task.instance.symbols;
  symbols[ir::kSymbolM] = task.c.m, symbols[ir::kSymbolN] = task.c.n;
  return symbols;
}

KernelOptions options_of(const Task& task, bool fused) {
  KernelOptions options;
  options.fused = fused;
  options.wish = task.wish;
  return options;
}

/// The task's kernel: with its wish where that fits or is forced, else as the model chooses.
std::unique_ptr<CudaKernel> kernel_of(const Task& task, bool fused,
                                      const std::shared_ptr<const Gpu>& gpu, const BoundCall& call,
                                      std::string* way) {
  KernelOptions options = options_of(task, fused);
  auto kernel = std::make_unique<CudaKernel>(task.instance, gpu, options);
  try {
    *way = kernel->warm(call);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported || !options.wish || task.forced) throw;
    options.wish.reset();
    kernel = std::make_unique<CudaKernel>(task.instance, gpu, options);
    *way = kernel->warm(call);
  }
  return kernel;
}

std::mutex watch_mutex;
std::map<std::thread::id, std::pair<std::chrono::steady_clock::time_point, std::string>> watched;

}  // namespace

void Watch::begin(const std::string& what) {
  const std::lock_guard lock(watch_mutex);
  watched[std::this_thread::get_id()] = {std::chrono::steady_clock::now(), what};
}

void Watch::end() {
  const std::lock_guard lock(watch_mutex);
  watched.erase(std::this_thread::get_id());
}

void Watch::start(double seconds) {
  std::thread([seconds] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const std::lock_guard lock(watch_mutex);
      for (const auto& [id, entry] : watched) {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - entry.first;
        if (spent.count() < seconds) continue;
        std::printf("HANG %s\n", entry.second.c_str());
        std::fflush(stdout);
        _exit(kFailed);
      }
    }
  }).detach();
}

Lane::Lane(std::shared_ptr<const Gpu> gpu, int launches)
    : gpu_(std::move(gpu)), stream_(gpu_->shared_context()), launches_(launches) {}

void Lane::reserve(Memory& memory, size_t bytes) {
  if (memory.size() >= bytes) return;
  memory = Memory();
  memory = Memory(gpu_->shared_context(), bytes + bytes / 2);
}

void Lane::launch_all(const std::string& what, const CudaKernel& kernel, check::DrawnCall& drawn,
                      const BoundCall& host, Outcome& outcome) {
  const std::vector<std::span<std::byte>> blocks = drawn.memory();
  size_t total = 0;
  const std::vector<size_t> offsets = offsets_of(blocks, &total);
  reserve(tensors_, total + 256);
  auto* const base = static_cast<std::byte*>(tensors_.data());
  BoundCall call = host;
  Mapping mapping;
  for (size_t i = 0; i < blocks.size(); ++i) mapping.add(blocks[i], base + offsets[i]);
  mapping.apply(call);
  const size_t bytes = kernel.workspace_bytes(call);
  reserve(workspace_, bytes + kCanary);
  auto* const workspace = static_cast<std::byte*>(workspace_.data());
  const Context& context = gpu_->context();
  const StreamHandle stream = stream_.handle();
  std::vector<std::vector<std::byte>> first;
  for (int turn = 0; turn < launches_; ++turn) {
    if (!outcome.ok) break;
    drawn.restore();
    for (size_t i = 0; i < blocks.size(); ++i)
      copy_to_device(context, base + offsets[i], blocks[i].data(), blocks[i].size(), stream);
    fill(context, workspace, 0xff, bytes + kCanary, stream);
    stream_.synchronise();
    Watch::begin(what);
    if (turn != 1) {
      kernel.launch(stream, call, workspace);
    } else {  // captured, then replayed
      Capture capture(gpu_->shared_context(), stream);
      kernel.launch(stream, call, workspace);
      const Graph graph = capture.finish();
      graph.launch(stream);
      stream_.synchronise();
    }
    stream_.synchronise();
    Watch::end();
    std::vector<std::byte> canary(kCanary);
    copy_to_host(context, canary.data(), workspace + bytes, kCanary, stream);
    for (size_t i = 0; i < blocks.size(); ++i)
      copy_to_host(context, blocks[i].data(), base + offsets[i], blocks[i].size(), stream);
    stream_.synchronise();
    if (std::any_of(canary.begin(), canary.end(), [](std::byte b) { return b != std::byte{0xff}; }))
      outcome.ok = false, outcome.message = "memory behind the workspace was written; ";
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (turn == 0) {
        first.emplace_back(blocks[i].begin(), blocks[i].end());
      } else if (!std::equal(blocks[i].begin(), blocks[i].end(), first[i].begin())) {
        outcome.ok = false;
        outcome.message += fmt::format("launch {} gives other bits; ", turn + 1);
        break;
      }
    }
  }
}

Outcome Lane::run_one(const Task& task, bool fused, check::DrawnCall& drawn, const BoundCall& call,
                      const std::vector<reference::Dense>& expected) {
  Outcome outcome;
  try {
    const auto kernel = kernel_of(task, fused, gpu_, call, &outcome.way);
    launch_all(task.text() + " " + outcome.way, *kernel, drawn, call, outcome);
    const ir::Program& program = *task.instance.program;
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const reference::Comparison result = reference::compare(call.outputs[o], expected[o]);
      outcome.ratio = std::max(outcome.ratio, result.ratio);
      if (result.ok()) continue;
      outcome.ok = false;
      outcome.message += "'" + program.outputs[o].name + "': " + to_string(result) + "; ";
    }
    if (const std::string damage = drawn.find_damage(call); !damage.empty())
      outcome.ok = false, outcome.message += damage;
  } catch (const Error& error) {
    Watch::end();
    if (error.kind() == ErrorKind::device) {  // the context is lost: nothing after it counts
      std::printf("FAIL %s %s: %s\n", task.text().c_str(), outcome.way.c_str(), error.what());
      std::fflush(stdout);
      _exit(kFailed);
    }
    outcome.ok = false, outcome.ratio = HUGE_VAL;
    outcome.message = std::string(error.what()).substr(0, 600);
  }
  return outcome;
}

std::vector<Outcome> Lane::run(const Task& task) {
  check::DrawnCall drawn(task.instance, symbols_of(task), task.c.k, task.c.seed, task.layout);
  const BoundCall call = bind_drawn(task.instance, drawn);
  const ir::Program& program = *task.instance.program;
  const std::vector<reference::Dense> expected = reference::evaluate(
      program, call.symbols, reference::inputs_of(program, call), {.type = task.c.type});
  std::vector<Outcome> outcomes;
  outcomes.push_back(run_one(task, true, drawn, call, expected));
  if (outcomes[0].way.starts_with("fused"))
    outcomes.push_back(run_one(task, false, drawn, call, expected));
  return outcomes;
}

std::optional<FusedCall> fused_call(const Task& task, std::string* why) {
  if (const auto problem = fused_problem(task.instance)) {
    *why = *problem;
    return std::nullopt;
  }
  check::DrawnCall drawn(task.instance, symbols_of(task), task.c.k, task.c.seed, task.layout);
  const Fused90 fused(task.instance, {}, nullptr, kHopperProcessors);
  auto accepted = fused.accept(bind_drawn(task.instance, drawn));
  if (auto* reason = std::get_if<std::string>(&accepted)) {
    *why = std::move(*reason);
    return std::nullopt;
  }
  return std::get<FusedCall>(std::move(accepted));
}

}  // namespace coda::cuda

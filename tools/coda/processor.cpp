// SPDX-License-Identifier: Apache-2.0
#include "processor.h"

#include <coda/kernel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/convert.h"
#include "train/memory.h"

namespace coda::tool {
namespace {

/// The fastest of the runs that begin within `budget` seconds, the first left out: it faults pages
/// in and fills caches.
double fastest(double budget, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  work();
  const Clock::time_point begin = Clock::now();
  double best = 0;
  do {
    const Clock::time_point before = Clock::now();
    work();
    const double time = seconds(Clock::now() - before);
    best = best == 0 ? time : std::min(best, time);
  } while (seconds(Clock::now() - begin) < budget);
  return best;
}

double product_rate(DType type) {
  constexpr int64_t kSize = 1024;
  const Program program =
      Program::parse("coda 1\nprogram product(a: acc) -> y: T[m, n] {\n  y = a\n}\n", "product");
  CompileOptions options;
  options.type = type;
  const Kernel kernel = compile(program, {}, options);
  const size_t bytes = static_cast<size_t>(kSize * kSize) * size_of(type);
  const train::Memory a(bytes), b(bytes), y(bytes);
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    const size_t at = static_cast<size_t>(i) * size_of(type);
    store_element(a.data() + at, type, static_cast<double>(i * 7919 % 977) / 977 - 0.5);
    store_element(b.data() + at, type, static_cast<double>(i * 6151 % 983) / 983 - 0.5);
  }
  const auto view = [&](const train::Memory& memory) {
    return matrix_view(memory.data(), kSize, kSize, type);
  };
  Arguments arguments;
  arguments.product("a", view(a), view(b)).tensor("y", view(y));
  const train::Memory workspace(kernel.workspace_bytes(arguments));
  const double time =
      fastest(0.1, [&] { kernel.launch(nullptr, arguments, workspace.data(), workspace.size()); });
  return 2.0 * kSize * kSize * kSize / time;
}

double copy_rate() {
  constexpr size_t kBytes = size_t{64} << 20;
  const train::Memory from(kBytes), to(kBytes);
  std::memset(from.data(), 1, kBytes);
  const size_t workers = std::max(1U, std::thread::hardware_concurrency());
  const double time = fastest(0.1, [&] {
    std::vector<std::thread> threads;
    for (size_t w = 0; w < workers; ++w)
      threads.emplace_back([&, w] {
        const size_t begin = kBytes * w / workers, end = kBytes * (w + 1) / workers;
        std::memcpy(to.data() + begin, from.data() + begin, end - begin);
      });
    for (std::thread& thread : threads) thread.join();
  });
  return 2.0 * kBytes / time;
}

}  // namespace

rewrite::Machine measure_processor(DType type) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return {"cpu", product_rate(type), copy_rate(), memory};
}

}  // namespace coda::tool

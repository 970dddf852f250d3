// SPDX-License-Identifier: Apache-2.0
// Threads for the length of one call: no pool outlives it, so calls may nest and hosts may fork.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace coda::cpu {

/// Workers that `threads` (0: one per core) gives for so many units of work.
inline int worker_count(int threads, int64_t units) {
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(std::clamp<int64_t>(units, 1, threads));
}

/// Runs work(worker, next) on `workers` threads, the calling one among them. `next()` gives the
/// next unit in [0, units), or -1 when none is left. The first exception stops the others at their
/// next unit and is thrown again here.
template <class Work>
void run_workers(int workers, int64_t units, const Work& work) {
  std::atomic<int64_t> counter{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto next = [&]() -> int64_t {
    const int64_t unit = counter.fetch_add(1, std::memory_order_relaxed);
    return unit < units ? unit : -1;
  };
  const auto body = [&](int worker) {
    try {
      work(worker, next);
    } catch (...) {
      counter.store(units);
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(workers - 1));
  try {
    for (int worker = 1; worker < workers; ++worker) threads.emplace_back(body, worker);
  } catch (...) {
    // The system has no more threads: those that run take the units.
  }
  body(0);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace coda::cpu

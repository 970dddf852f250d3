// SPDX-License-Identifier: Apache-2.0
#include "check/for_each.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace coda::check {

void for_each(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = count;
      }
  };
  const size_t wanted = threads > 0 ? static_cast<size_t>(threads)
                                    : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> workers;
  for (size_t i = 1; i < std::min(wanted, count); ++i) workers.emplace_back(run);
  run();
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace coda::check

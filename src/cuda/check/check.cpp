// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/check.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "cuda/backend/ahead.h"
#include "cuda/check/lane.h"

namespace coda::cuda {
namespace {

constexpr size_t kAtOnce = 256;

check::Row row_of(const Task& task, const Outcome& outcome, const CheckOptions& options) {
  check::Row row;
  row.what = outcome.way;
  row.c = task.c;
  for (size_t i = ir::kFirstParameter; i < task.instance.symbols.size(); ++i)
    row.sizes[task.instance.program->symbols[i]] = task.instance.symbols[i];
  row.ok = outcome.ok, row.ratio = outcome.ratio, row.message = outcome.message;
  if (!row.ok) row.repeat = fmt::format("{} --task {}", options.command, task.number);
  return row;
}

std::vector<check::Row> run_task(Lane& lane, const Task& task, const CheckOptions& options) {
  std::vector<Outcome> outcomes;
  try {
    outcomes = lane.run(task);
  } catch (const Error& error) {
    outcomes = {{false, "preparation", HUGE_VAL, error.what()}};
  }
  std::vector<check::Row> rows;
  for (const Outcome& outcome : outcomes) rows.push_back(row_of(task, outcome, options));
  return rows;
}

}  // namespace

void compile_tasks(std::span<const Task> tasks, int workers) {
  std::vector<AheadCall> calls;
  std::vector<const Instance*> unfused;
  for (const Task& task : tasks) {
    std::string why;
    unfused.push_back(&task.instance);
    if (auto call = fused_call(task, &why))
      calls.push_back({&task.instance, std::move(*call), task.wish.value_or(ConfigWish{})});
  }
  const std::vector<AheadResult> results = compile_ahead(calls, workers);
  std::vector<AheadCall> unfit;  // a wish that does not fit gives way to what the model chooses
  for (size_t i = 0; i < calls.size(); ++i)
    if (!results[i].config) unfit.push_back({calls[i].instance, calls[i].call, {}});
  compile_ahead(unfit, workers);
  compile_unfused_ahead(unfused, workers);
}

std::vector<check::Report> check_on_gpu(const std::shared_ptr<const Gpu>& gpu,
                                        const CheckOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto late = [&](double now) { return options.seconds > 0 && now > options.seconds; };
  const std::vector<Task> tasks = make_tasks(options.tasks);
  Watch::start(kHangSeconds);
  std::vector<std::vector<check::Row>> rows(tasks.size());
  std::vector<double> spent(tasks.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  int done = 0;
  const auto work = [&](Lane& lane, size_t end) {
    for (size_t i; (i = next.fetch_add(1)) < end;) {
      const double begin = seconds();
      if (late(begin)) continue;
      rows[i] = run_task(lane, tasks[i], options);
      spent[i] = seconds() - begin;
      const std::lock_guard lock(mutex);
      if (options.progress) options.progress(++done, static_cast<int>(tasks.size()));
    }
  };
  const unsigned count = options.threads > 0 ? static_cast<unsigned>(options.threads)
                                             : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<Lane>> lanes;
  for (unsigned i = 0; i < count && i < tasks.size(); ++i)
    lanes.push_back(std::make_unique<Lane>(gpu, options.launches));
  // Some at a time are compiled, then run, so that a time limit leaves out only the last.
  for (size_t from = 0; from < tasks.size() && !late(seconds()); from += kAtOnce) {
    const size_t end = std::min(from + kAtOnce, tasks.size());
    if (architecture_of(gpu->info()) == "sm_90a")
      compile_tasks(std::span(tasks).subspan(from, end - from), options.threads);
    next = from;
    std::vector<std::thread> workers;
    for (const auto& lane : lanes) workers.emplace_back([&, end] { work(*lane, end); });
    for (std::thread& worker : workers) worker.join();
  }

  std::vector<check::Report> reports;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (reports.empty() || reports.back().program != tasks[i].name) {
      reports.emplace_back();
      reports.back().program = tasks[i].name;
      reports.back().seed = options.tasks.seed;
    }
    check::Report& report = reports.back();
    report.skipped += rows[i].empty();
    report.seconds += spent[i];
    for (check::Row& row : rows[i]) {
      report.failures += !row.ok;
      report.rows.push_back(std::move(row));
    }
  }
  return reports;
}

}  // namespace coda::cuda

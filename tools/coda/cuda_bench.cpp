// SPDX-License-Identifier: Apache-2.0
// coda bench on a GPU: the rows of a suite, or of programs, as a table or as JSON.
#include <coda/version.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>

#include "cuda.h"
#include "cuda/check/bench.h"
#include "cuda_open.h"
#include "rewrite/roofline.h"

namespace coda::tool {
namespace {

constexpr int kBenchSchema = 1;

/// The version of the driver, as "580.159.04"; empty where the system does not say.
std::string driver_version() {
  std::string version;
  std::ifstream("/sys/module/nvidia/version") >> version;
  return version;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &utc)};
}

/// The rates of the GPU's data sheet, where coda knows them.
std::optional<rewrite::Machine> machine_of(const std::string& gpu) {
  for (const char* name : {"H100", "H200"})
    if (gpu.find(name) != std::string::npos) return rewrite::known_machine(name, DType::bf16);
  return std::nullopt;
}

/// The part of `microseconds` that the products at the peak, or the bytes at the memory's rate,
/// would take at least.
double share_of_peak(const cuda::BenchResult& result, double microseconds,
                     const rewrite::Machine& machine) {
  return std::max(result.flops() / machine.products,
                  static_cast<double>(result.bytes) / machine.bandwidth) /
         microseconds * 1e6;
}

/// coda's time over that of the bare product; 0 where one of them is missing.
double ratio_of(const cuda::BenchResult& result) {
  const cuda::Timed* const bare = result.find("cuBLAS");
  const cuda::Timed* const coda = result.find("coda");
  return bare && coda ? coda->microseconds / bare->microseconds : 0;
}

const char* mark_of(double ratio, cuda::RowClass row_class) {
  const double bound = cuda::bound_of(row_class);
  return bound == 0 || ratio <= bound ? "" : ratio > cuda::kHardBound ? "!!" : "!";
}

/// What a run comes to: means and rows above their bounds.
struct Summary {
  double logarithms = 0;
  int products = 0, compared = 0, failed = 0;
  std::vector<std::string> above;

  void add(const cuda::BenchResult& result) {
    const double ratio = ratio_of(result);
    if (ratio == 0) return;
    ++compared;
    if (result.row_class == cuda::RowClass::product) logarithms += std::log(ratio), ++products;
    if (const std::string mark = mark_of(ratio, result.row_class); !mark.empty())
      above.push_back(fmt::format("{:<2} {} {:.3f} (at most {:.2f})", mark, result.name, ratio,
                                  cuda::bound_of(result.row_class)));
  }

  void print() const {
    if (products > 1)
      fmt::print("products: geometric mean {:.3f} of {} shapes\n", std::exp(logarithms / products),
                 products);
    if (compared > 0)
      fmt::print("{} of {} rows are above their bound ('!!': above {:.2f})\n", above.size(),
                 compared, cuda::kHardBound);
    for (const std::string& line : above) fmt::print("  {}\n", line);
    if (failed > 0) fmt::print("{} rows failed\n", failed);
  }
};

void print_heading() {
  fmt::print(
      "{:<30} {:>9} {:>20} {:>9} {:>9} {:>9} {:>6} {:>4} {:>2} {:>6} {:>5} {:>5} {:>5}  {}\n", "",
      "class", "M x N x K", "cuBLAS us", "+ kernels", "coda us", "ratio", "most", "", "/ sep.",
      "TF/s", "GB/s", "peak", "configuration");
}

void print_row(const cuda::BenchResult& result, const std::optional<rewrite::Machine>& machine,
               bool first_use) {
  const cuda::Timed* const bare = result.find("cuBLAS");
  const cuda::Timed* const separate = result.find("cuBLAS + kernels");
  const auto number = [](const cuda::Timed* timed) {
    return timed ? fmt::format("{:.1f}", timed->microseconds) : std::string("-");
  };
  const double bound = cuda::bound_of(result.row_class);
  for (const cuda::Timed& coda : result.times) {
    if (coda.name != "coda") continue;
    const auto ratio = [&](const cuda::Timed* to) {
      return to ? fmt::format("{:.3f}", coda.microseconds / to->microseconds) : std::string("-");
    };
    fmt::print(
        "{:<30} {:>9} {:>20} {:>9} {:>9} {:>9.1f} {:>6} {:>4} {:>2} {:>6} {:>5.0f} {:>5.0f} {:>5}  "
        "{}\n",
        result.name, cuda::name_of(result.row_class),
        fmt::format("{}x{}x{}", result.m, result.n, result.k), number(bare), number(separate),
        coda.microseconds, ratio(bare), bound > 0 ? fmt::format("{:.2f}", bound) : std::string("-"),
        bare ? mark_of(coda.microseconds / bare->microseconds, result.row_class) : "",
        ratio(separate), result.flops() / coda.microseconds * 1e-6,
        static_cast<double>(result.bytes) / coda.microseconds * 1e-3,
        machine ? fmt::format("{:.2f}", share_of_peak(result, coda.microseconds, *machine))
                : std::string("-"),
        coda.way);
    if (first_use) fmt::print("first use: {:.3f} s\n", coda.first_use_seconds);
  }
  std::fflush(stdout);
}

Json as_json(const cuda::BenchRow& row, const cuda::BenchResult& result,
             const std::optional<rewrite::Machine>& machine) {
  Json times = Json::array();
  for (const cuda::Timed& timed : result.times) {
    Json time{{"name", timed.name},
              {"first_use_seconds", timed.first_use_seconds},
              {"way", timed.way},
              {"median_seconds", timed.microseconds * 1e-6}};
    if (machine) time["share_of_peak"] = share_of_peak(result, timed.microseconds, *machine);
    times.push_back(std::move(time));
  }
  return {{"name", result.name},
          {"class", cuda::name_of(result.row_class)},
          {"bound", cuda::bound_of(result.row_class)},
          {"program", row.instance.program->name},
          {"layout", row.size.layout},
          {"m", result.m},
          {"n", result.n},
          {"k", result.k},
          {"bytes", result.bytes},
          {"results", std::move(times)}};
}

}  // namespace

std::vector<cuda::BenchRow> rows_of(const std::vector<Instance>& instances,
                                    const CudaBench& options) {
  std::vector<cuda::BenchRow> rows;
  for (const Instance& instance : instances) {
    const cuda::CallSize size{options.m, options.n, {options.k}, options.layout};
    rows.push_back({instance.program->name, instance, size, cuda::class_of(instance, size)});
  }
  if (!instances.empty()) return rows;
  rows = options.suite == "generated" ? cuda::generated_rows() : cuda::kernel_rows();
  std::erase_if(rows, [&](const cuda::BenchRow& row) {
    return row.name.find(options.only) == std::string::npos;
  });
  if (rows.empty())
    throw Error(ErrorKind::argument, "--only", "part of the name of a row of the suite",
                "'" + options.only + "'", "without --only, all rows are printed with their names");
  return rows;
}

bool usable(const cuda::Arena& arena) {
  try {
    arena.synchronise();
    return true;
  } catch (const Error&) {
    return false;
  }
}

int bench_on_cuda(const Shell& shell, const std::vector<Instance>& instances,
                  const CudaBench& options) {
  cuda::BenchOptions engine;
  engine.wish = wish_of(options.config);
  engine.candidates = options.candidates;
  engine.turns = {slot_ms(options), options.rounds};
  const auto gpu = open_gpu();
  const std::optional<rewrite::Machine> machine = machine_of(gpu->info().name);
  const std::vector<cuda::BenchRow> rows = rows_of(instances, options);
  if (instances.empty() && cuda::architecture_of(gpu->info()) == "sm_90a") {
    progress(shell, "compiling");
    cuda::compile_rows(rows, engine, gpu->info().multiprocessors);
    progress(shell, "");
  }
  cuda::Arena arena(gpu, cuda::kBenchBytes);
  Json list = Json::array(), host;
  if (instances.empty() && options.only.empty()) {
    const cuda::HostTimes times = cuda::time_host(gpu, arena);
    host = {{"launch_seconds", times.launch * 1e-6}, {"empty_seconds", times.empty * 1e-6}};
    if (!shell.json)
      fmt::print("host time of a launch: {:.2f} us; of an empty kernel: {:.2f} us\n", times.launch,
                 times.empty);
  }
  if (!shell.json) print_heading();
  Summary summary;
  for (const cuda::BenchRow& row : rows) {
    progress(shell, row.name);
    try {
      const cuda::BenchResult result = cuda::bench(gpu, arena, row, engine);
      progress(shell, "");
      summary.add(result);
      if (shell.json)
        list.push_back(as_json(row, result, machine));
      else
        print_row(result, machine, !instances.empty());
    } catch (const Error& error) {
      progress(shell, "");
      ++summary.failed;
      const bool lost = !usable(arena);
      const std::string reason =
          std::string(error.what()) + (lost ? "; the GPU's context is lost: no row follows" : "");
      if (shell.json)
        list.push_back(
            {{"name", row.name}, {"class", cuda::name_of(row.row_class)}, {"error", reason}});
      else
        fmt::print("{:<30} failed: {}\n", row.name, reason);
      if (lost) break;
    }
  }
  if (shell.json) {
    Json result{{"device", "cuda"},
                {"bench_schema", kBenchSchema},
                {"suite", !instances.empty()      ? ""
                          : options.suite.empty() ? "kernels"
                                                  : options.suite},
                {"command", shell.command},
                {"gpu", gpu->info().name},
                {"driver", driver_version()},
                {"date", today()},
                {"version", version()},
                {"commit", options.commit},
                {"slot_ms", engine.turns.slot_ms},
                {"rounds", engine.turns.rounds},
                {"host", std::move(host)},
                {"hard_bound", cuda::kHardBound}};
    if (machine)
      result["peak"] = {{"machine", machine->name},
                        {"flops_per_second", machine->products},
                        {"bytes_per_second", machine->bandwidth}};
    result["rows"] = std::move(list);
    print_json(std::move(result));
  } else {
    summary.print();
  }
  return summary.failed > 0 ? kFailed : kOk;
}

}  // namespace coda::tool

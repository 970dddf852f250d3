// SPDX-License-Identifier: Apache-2.0
// coda check --device cuda --suite: calls as large as models make them.
#include <fmt/format.h>

#include "cuda/check/large.h"
#include "cuda_open.h"

namespace coda::tool {
namespace {

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

}  // namespace

int check_suite_on_cuda(const Shell& shell, const CudaSuite& options) {
  CudaBench suite;
  suite.only = options.only;
  const std::vector<cuda::BenchRow> rows = rows_of({}, suite);
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

}  // namespace coda::tool

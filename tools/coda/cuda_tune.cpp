// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cuda.h"
#include "cuda/check/bench.h"
#include "cuda/check/lane.h"
#include "cuda/check/tune.h"
#include "cuda_open.h"
#include "train/atomic_file.h"

namespace coda::tool {
namespace {

constexpr double kHangSeconds = 30;

cuda::TunedTable read_table(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in)
    throw Error(ErrorKind::io, file, "a file that can be read", "none",
                "name another file with --out");
  return cuda::parse_tuned(text.str(), file);
}

/// The table that is written: the one in the file, where there is one.
cuda::TunedTable first_table(const std::string& file, const cuda::DeviceInfo& gpu) {
  cuda::TunedTable table{gpu.name, gpu.multiprocessors, {}};
  if (file.empty() || !std::filesystem::exists(file)) return table;
  cuda::TunedTable old = read_table(file);
  if (old.gpu != table.gpu || old.multiprocessors != table.multiprocessors)
    throw Error(
        ErrorKind::argument, file,
        fmt::format("a table of {} with {} multiprocessors", table.gpu, table.multiprocessors),
        fmt::format("one of {} with {}", old.gpu, old.multiprocessors),
        "name another file with --out");
  return old;
}

void write_table(const std::string& file, const cuda::TunedTable& table) {
  train::AtomicFile out(file);
  out.write(cuda::to_json(table));
  out.commit();
}

void put(cuda::TunedTable& table, const cuda::TunedEntry& entry) {
  const auto old = std::find_if(table.entries.begin(), table.entries.end(),
                                [&](const auto& other) { return other.replaces(entry); });
  if (old == table.entries.end())
    table.entries.push_back(entry);
  else
    *old = entry;
}

/// Rows that stand for the same calls as an earlier one are left out: one entry serves both.
void drop_twins(std::vector<cuda::TuneRow>& rows) {
  std::vector<cuda::TuneRow> kept;
  for (cuda::TuneRow& row : rows)
    if (row.configs.empty() || std::none_of(kept.begin(), kept.end(), [&](const auto& other) {
          return !other.configs.empty() && other.entry().replaces(row.entry());
        }))
      kept.push_back(std::move(row));
  rows = std::move(kept);
}

/// What is said of one row, as text or as JSON.
class Teller {
 public:
  /// Where the table goes to stdout, words go to stderr.
  Teller(const Shell& shell, bool table_to_stdout)
      : shell_(shell), out_(table_to_stdout ? stderr : stdout) {}

  void result(const cuda::TuneRow& row, const cuda::TuneResult& result) {
    if (shell_.json) {
      Json tried = Json::array();
      for (const cuda::Tried& one : result.tried) {
        Json entry{{"config", one.config}};
        if (one.refusal.empty())
          entry["microseconds"] = one.microseconds;
        else
          entry["refused"] = one.refusal;
        tried.push_back(std::move(entry));
      }
      rows_.push_back({{"name", row.row->name},
                       {"cublas_microseconds", result.bare_microseconds},
                       {"config", result.entry ? Json(result.entry->config) : Json()},
                       {"tried", std::move(tried)}});
      return;
    }
    const cuda::Tried& first = result.tried.front();
    const std::string model =
        first.refusal.empty() ? fmt::format("{:.1f}", first.microseconds) : std::string("-");
    if (result.entry)
      fmt::print(out_, "{:<30} {:>9.1f} us, {:.3f} of cuBLAS, {} us as the model chooses: {}\n",
                 row.row->name, result.entry->microseconds, result.entry->ratio, model,
                 result.entry->config);
    else
      fmt::print(out_, "{:<30} no configuration takes part\n", row.row->name);
    for (const cuda::Tried& one : result.tried)
      if (!one.refusal.empty()) fmt::print(out_, "  {} is refused: {}\n", one.config, one.refusal);
    std::fflush(out_);
  }

  void failure(const std::string& name, const std::string& reason) {
    if (shell_.json)
      rows_.push_back({{"name", name}, {"error", reason}});
    else
      fmt::print(out_, "{:<30} failed: {}\n", name, reason);
  }

  Json take_rows() { return std::move(rows_); }

 private:
  const Shell& shell_;
  std::FILE* out_;
  Json rows_ = Json::array();
};

}  // namespace

int tune_on_cuda(const Shell& shell, const std::vector<Instance>& instances,
                 const CudaTune& options) {
  const auto gpu = open_gpu();
  const cuda::DeviceInfo& info = gpu->info();
  if (cuda::architecture_of(info) != "sm_90a")
    throw Error(ErrorKind::unsupported, "coda tune", "a GPU with fused kernels: H100 or H200",
                info.name);
  cuda::TunedTable table = first_table(options.out, info);
  const std::vector<cuda::BenchRow> chosen = rows_of(instances, options.rows);
  std::vector<cuda::TuneRow> rows =
      cuda::tune_rows(chosen, options.rows.candidates, info.multiprocessors);
  std::erase_if(
      rows, [](const cuda::TuneRow& row) { return row.row->row_class == cuda::RowClass::pass; });
  drop_twins(rows);
  progress(shell, "compiling");
  cuda::compile_candidates(rows, options.workers);
  cuda::Watch::start(kHangSeconds);
  cuda::Arena arena(gpu, cuda::kBenchBytes);
  cuda::TuneOptions engine;
  engine.turns = {slot_ms(options.rows), options.rows.rounds};
  Teller teller(shell, options.out.empty());
  bool failed = false;
  for (const cuda::TuneRow& row : rows) {
    const std::string& name = row.row->name;
    progress(shell, name);
    if (row.configs.empty()) {
      progress(shell, "");
      teller.failure(name, row.why_none);
      failed = true;
      continue;
    }
    try {
      const cuda::TuneResult result = cuda::tune(gpu, arena, row, engine);
      progress(shell, "");
      teller.result(row, result);
      failed = failed || !result.entry;
      if (!result.entry) continue;
      put(table, *result.entry);
    } catch (const Error& error) {
      progress(shell, "");
      failed = true;
      const bool lost = !usable(arena);
      teller.failure(name, std::string(error.what()) +
                               (lost ? "; the GPU's context is lost: no row follows" : ""));
      if (lost) break;
      continue;
    }
    // After every row: what was found stays, whatever ends the run.
    if (!options.out.empty()) write_table(options.out, table);
  }
  if (shell.json)
    print_json({{"gpu", info.name},
                {"rows", teller.take_rows()},
                {"table", Json::parse(cuda::to_json(table))}});
  else if (options.out.empty())
    fmt::print("{}", cuda::to_json(table));
  return failed ? kFailed : kOk;
}

}  // namespace coda::tool

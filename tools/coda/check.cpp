// SPDX-License-Identifier: Apache-2.0
// coda check: programs on drawn data of many shapes against float64, gradients against differences.
#include "check/check.h"

#include <coda/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>

#include "commands.h"
#include "cuda.h"
#include "language/library.h"
#include "language/parser.h"
#include "programs.h"

namespace coda::tool {
namespace {

struct Options {
  std::vector<std::string> files, sizes;
  std::string device = "cpu", only, type, config;
  uint64_t seed = 1, generated = 0;
  std::optional<int> task;
  int launches = 2;
  bool derivatives = true;
  int threads = 0;
  double seconds = 10;
  bool all = false, list = false, suite = false;
  std::string rows;
};

struct Named {
  Program program;
  std::string name;  // what names it on a command line
};

std::vector<Named> find_named(const std::vector<std::string>& files) {
  std::vector<Named> result;
  if (files.empty())
    for (const Program& program : library_programs()) result.push_back({program, program.name()});
  for (const std::string& file : files)
    for (const Program& program : find_programs(file)) {
      const std::string name = program.name();
      const bool complete = file == name || file.ends_with(":" + name);
      result.push_back({program, complete ? file : file + ":" + name});
    }
  return result;
}

int list(const Shell& shell) {
  Json programs = Json::array();
  std::vector<std::vector<std::string>> rows{{"program", "file"}};
  for (const language::LibraryFile& file : language::library_files())
    for (const ir::Program& program : language::parse_file(file.text, file.name)) {
      programs.push_back({{"program", program.name}, {"file", file.name}});
      rows.push_back({program.name, std::string(file.name)});
    }
  if (shell.json)
    print_json({{"programs", programs}});
  else
    print_table(rows, {false, false});
  return kOk;
}

/// The largest error over tolerance of the rows that `kind` begins; "-" where there are none.
std::string worst(const check::Report& report, std::string_view kind) {
  double ratio = -1;
  for (const check::Row& row : report.rows)
    if (row.what.starts_with(kind)) ratio = std::max(ratio, row.ratio);
  return ratio < 0 ? "-" : fmt::format("{:.2g}", ratio);
}

void print_failures(const check::Report& report) {
  constexpr int kShown = 5;
  int shown = 0;
  for (const check::Row& row : report.rows) {
    if (row.ok || shown++ >= kShown) continue;
    fmt::print("\n{}: {} of {}{}\n  {}\n  repeat: {}\n", paint(Colour::red, "FAILED"), row.what,
               report.program, row.output.empty() ? "" : ", " + row.output, row.message,
               row.repeat);
  }
  if (shown > kShown) fmt::print("\n{} more failures of {}\n", shown - kShown, report.program);
}

void print(const std::vector<check::Report>& reports) {
  std::vector<std::vector<std::string>> rows{
      {"program", "cases", "fused", "unfused", "gradient", "seconds", ""}};
  int cases = 0, failures = 0, skipped = 0;
  for (const check::Report& report : reports) {
    cases += static_cast<int>(report.rows.size());
    failures += report.failures;
    skipped += report.skipped;
    rows.push_back({report.program, fmt::format("{}", report.rows.size()), worst(report, "fused"),
                    worst(report, "unfused"), worst(report, "gradient"),
                    fmt::format("{:.2f}", report.seconds),
                    report.ok() ? "ok" : fmt::format("{} FAILED", report.failures)});
  }
  print_table(rows, {false, true, true, true, true, true, false});
  for (const check::Report& report : reports) print_failures(report);
  fmt::print("\n{} cases of {}, {} failed; seed {}. Numbers are the largest error / tolerance.\n",
             cases,
             reports.size() == 1 ? "one program" : fmt::format("{} programs", reports.size()),
             failures, reports.empty() ? 0 : reports.front().seed);
  if (skipped > 0) fmt::print("{} cases left out for time: --seconds gives more.\n", skipped);
}

Json as_json(const check::Report& report) {
  Json failures = Json::array();
  double ratio = 0;
  for (const check::Row& row : report.rows) {
    ratio = std::max(ratio, row.ratio);
    if (!row.ok)
      failures.push_back({{"what", row.what},
                          {"case", check::to_string(row.c)},
                          {"sizes", row.sizes},
                          {"output", row.output},
                          {"message", row.message},
                          {"repeat", row.repeat}});
  }
  return {{"program", report.program},
          {"ok", report.ok()},
          {"cases", report.rows.size()},
          {"skipped", report.skipped},
          {"worst_error_over_tolerance", ratio},
          {"seconds", report.seconds},
          {"failures", failures}};
}

std::optional<check::Case> only_case(const Options& options) {
  if (options.only.empty()) return std::nullopt;
  check::Case only = check::parse_case(options.only);
  only.seed = options.seed;
  return only;
}

int finish(const Shell& shell, const Options& options, const std::vector<check::Report>& reports) {
  progress(shell, "");
  const bool ok = std::all_of(reports.begin(), reports.end(), [](const auto& r) { return r.ok(); });
  if (shell.json) {
    Json list = Json::array();
    for (const check::Report& report : reports) list.push_back(as_json(report));
    print_json({{"ok", ok},
                {"device", options.device},
                {"seed", options.seed},
                {"programs", std::move(list)}});
  } else {
    print(reports);
  }
  return ok ? kOk : kFailed;
}

/// Why calls ran unfused, most frequent first.
void print_reasons(const std::vector<check::Report>& reports) {
  constexpr std::string_view kUnfused = "unfused: ";
  std::map<std::string, int> counts;
  int fused = 0;
  for (const check::Report& report : reports)
    for (const check::Row& row : report.rows) {
      fused += row.what.starts_with("fused");
      if (row.what.starts_with(kUnfused)) ++counts[row.what.substr(kUnfused.size())];
    }
  std::vector<std::pair<int, std::string>> reasons;
  for (const auto& [reason, count] : counts) reasons.emplace_back(-count, reason);
  std::sort(reasons.begin(), reasons.end());
  fmt::print("{} cases ran fused. Unfused:\n", fused);
  for (const auto& [count, reason] : reasons) fmt::print("{:6}  {}\n", -count, reason);
}

int run_on_cuda(const Shell& shell, const Options& options, const std::vector<Named>& named,
                const std::map<std::string, int64_t>& sizes) {
  CudaCheck engine;
  engine.command = "coda check";
  for (const Named& n : named) {
    if (!options.files.empty()) engine.command += " " + n.name;
    if (!options.derivatives) {
      engine.programs.push_back({n.program.name(), n.program.ir()});
      continue;
    }
    for (check::NamedProgram& program : check::with_derivatives(n.program.ir()))
      engine.programs.push_back(std::move(program));
  }
  if (!options.derivatives) engine.command += " --no-derivatives";
  engine.command += " --device cuda --seed " + std::to_string(options.seed);
  if (options.all) engine.command += " --all";
  if (options.generated > 0) engine.command += " --generated " + std::to_string(options.generated);
  if (!options.config.empty()) engine.command += " --config '" + options.config + "'";
  for (const auto& [name, value] : sizes)
    engine.command += " --size " + name + "=" + std::to_string(value);
  engine.sizes = sizes;
  engine.generated = options.generated;
  engine.seed = options.seed;
  engine.all = options.all;
  engine.only = only_case(options);
  engine.type = dtype_from_name(options.type);
  engine.task = options.task;
  engine.config = options.config;
  engine.threads = options.threads;
  engine.launches = std::max(options.launches, 1);
  if (!options.all)
    engine.seconds =
        options.seconds * static_cast<double>(engine.programs.size() + options.generated);
  engine.progress = [&](int done, int total) {
    progress(shell, fmt::format("{} of {} calls", done, total));
  };
  const std::vector<check::Report> reports = check_on_cuda(engine);
  const int status = finish(shell, options, reports);
  if (!shell.json) print_reasons(reports);
  return status;
}

int run_suite(const Shell& shell, const Options& options) {
  if (options.device != "cuda")
    throw Error(ErrorKind::argument, "--suite", "--device cuda", "--device " + options.device,
                "the shapes of models are checked on a GPU alone; add --device cuda");
  if (!options.files.empty())
    throw Error(ErrorKind::argument, "--suite", "no FILE", "'" + options.files[0] + "'",
                "the suite has programs of its own; --only TEXT picks among its rows");
  return check_suite_on_cuda(shell, {options.config, options.rows, options.seed, options.threads});
}

int run(const Shell& shell, const Options& options) {
  if (options.list) return list(shell);
  if (options.suite) return run_suite(shell, options);
  const std::vector<Named> named = find_named(options.files);
  std::vector<Program> programs;
  for (const Named& n : named) programs.push_back(n.program);
  const std::map<std::string, int64_t> sizes = parse_sizes(options.sizes, programs);
  if (options.device == "cuda") return run_on_cuda(shell, options, named, sizes);
  check::Options engine;
  engine.all = options.all;
  engine.seed = options.seed;
  engine.threads = options.threads;
  engine.seconds = options.seconds;
  engine.type = dtype_from_name(options.type);
  engine.only = only_case(options);

  std::vector<check::Report> reports;
  for (const Named& n : named) {
    engine.command = "coda check " + n.name;
    engine.sizes.clear();
    for (const std::string& symbol : n.program.ir().symbols)
      if (const auto size = sizes.find(symbol); size != sizes.end()) engine.sizes.insert(*size);
    engine.progress = [&](int done, int total) {
      progress(shell, fmt::format("{} ({} of {} programs): {} of {} cases", n.program.name(),
                                  reports.size() + 1, named.size(), done, total));
    };
    reports.push_back(check::check(n.program, engine));
  }
  return finish(shell, options, reports);
}

}  // namespace

void add_check(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, shell, "check", "hold programs against float64",
                                  [&shell, options] { return run(shell, *options); });
  command->add_option("FILE", options->files,
                      "FILE, FILE:PROGRAM or programs of the library; none: the whole library");
  command->add_flag("--all", options->all, "every shape and type in place of a few");
  command->add_flag("--list", options->list, "list the programs of the library");
  command->add_option("--size", options->sizes, "a size parameter: --size dh=64,nq=8")
      ->delimiter(',');
  command->add_option("--type", options->type, "run with this T alone: f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command->add_option("--seed", options->seed, "of the drawn data")->capture_default_str();
  command->add_option("--case", options->only, "one case alone: MxNxK:TYPE, as failures print it");
  command->add_option("--device", options->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--config", options->config,
                      "on cuda: the configuration, \"pingpong 128x192 2x1 chunk=64\"");
  command->add_option("--generated", options->generated,
                      "on cuda: so many random programs besides");
  command->add_option("--task", options->task, "on cuda: one call alone, as failures print it");
  command->add_option("--launches", options->launches,
                      "on cuda: launches of each call, which must give the same bits");
  CLI::Option* const suite = command->add_flag(
      "--suite", options->suite, "on cuda: the calls that models make, as large as they are");
  command->add_option("--only", options->rows, "with --suite: rows whose names have this in them")
      ->needs(suite);
  command->add_flag("--derivatives,!--no-derivatives", options->derivatives,
                    "on cuda: derived backward programs too");
  command->add_option("--threads", options->threads, "workers; 0: one per core");
  command->add_option("--seconds", options->seconds, "time limit for each program without --all")
      ->capture_default_str();
}

}  // namespace coda::tool

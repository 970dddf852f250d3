// SPDX-License-Identifier: Apache-2.0
// coda tune: times the best configurations of kernels on this GPU and writes a table of them.
#include <coda/error.h>
#include <fmt/core.h>

#include <memory>

#include "commands.h"
#include "cuda.h"
#include "programs.h"
#include "ranges.h"

namespace coda::tool {
namespace {

struct Options {
  std::string file;
  CudaTune cuda;
  Choices choices;

  Options() {
    CudaBench& rows = cuda.rows;
    rows.m = rows.n = rows.k = 4096, rows.candidates = 6;
  }
};

int run(const Shell& shell, const Options& options) {
  const CudaBench& rows = options.cuda.rows;
  constexpr int64_t kMost = int64_t{1} << 31;
  require_range<int64_t>("-m", rows.m, 1, kMost);
  require_range<int64_t>("-n", rows.n, 1, kMost);
  require_range<int64_t>("-k", rows.k, 1, kMost);
  require_range("--candidates", rows.candidates, 1, 1000);
  require_range("--rounds", rows.rounds, 1, 1000);
  require_range("--workers", options.cuda.workers, 0, 4096);
  std::vector<Instance> instances;
  if (!options.file.empty()) {
    if (!rows.suite.empty())
      throw Error(ErrorKind::argument, "--suite " + rows.suite, "no program beside it",
                  options.file, "leave one of the two out");
    const std::vector<Program> programs = find_programs(options.file);
    const auto sizes = parse_sizes(options.choices.sizes, programs);
    for (const Program& program : programs)
      instances.push_back(instantiate(program, options.choices, sizes));
  }
  return tune_on_cuda(shell, instances, options.cuda);
}

}  // namespace

void add_tune(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CudaBench& rows = options->cuda.rows;
  CLI::App* command =
      add_command(app, shell, "tune", "find the fastest configurations of kernels on this GPU",
                  [&shell, options] { return run(shell, *options); });
  command->add_option("FILE", options->file,
                      "FILE, FILE:PROGRAM or a program of the library; none: a suite");
  command->add_option("--suite", rows.suite, "the rows of coda bench: kernels, or generated")
      ->check(CLI::IsMember({"kernels", "generated"}));
  command->add_option("--only", rows.only, "rows of the suite whose name has this in it");
  command->add_option("-m,--m", rows.m, "rows: tokens")->capture_default_str();
  command->add_option("-n,--n", rows.n, "columns: output features")->capture_default_str();
  command->add_option("-k,--k", rows.k, "input features of the matrix product")
      ->capture_default_str();
  command->add_option("--layout", rows.layout, "NT, the forward product; NN or TN, a gradient")
      ->check(CLI::IsMember({"NT", "NN", "TN"}))
      ->capture_default_str();
  command->add_option("--candidates", rows.candidates, "how many of the best by the cost model")
      ->capture_default_str();
  command->add_option("--out", options->cuda.out,
                      "the file of the table, kept up to date; its other entries stay");
  command->add_option("--seconds", rows.seconds, "ten times the length of a slot, at most 3")
      ->capture_default_str();
  command->add_option("--rounds", rows.rounds, "slots of each configuration")
      ->capture_default_str();
  command->add_option("--workers", options->cuda.workers, "compile processes; 0: one per core");
  add_choices(*command, options->choices);
}

}  // namespace coda::tool

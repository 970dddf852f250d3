// SPDX-License-Identifier: Apache-2.0
// coda compile: kernels into the cache, without a GPU.
#include <fmt/core.h>

#include "commands.h"
#include "cuda.h"
#include "programs.h"

namespace coda::tool {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string config;
  bool all = false;
  int workers = 0;
  Choices choices;
};

Json as_json(const CompiledKernel& kernel) {
  return {{"program", kernel.program},
          {"layout", kernel.layout},
          {"way", kernel.way},
          {"kernel", kernel.kernel},
          {"registers", kernel.registers},
          {"spill_bytes", kernel.spill_bytes},
          {"from_cache", kernel.from_cache}};
}

int run(const Shell& shell, const Options& options) {
  if (options.files.empty() && !options.all)
    throw Error(ErrorKind::argument, "compile", "programs, or --all", "neither",
                "coda compile --all compiles the library");
  const std::vector<Program> chosen =
      options.all ? library_programs() : find_programs(options.files);
  const auto sizes = parse_sizes(options.choices.sizes, chosen);
  std::vector<check::NamedProgram> programs;
  for (const Program& program : chosen)
    for (check::NamedProgram& named : check::with_derivatives(program.ir()))
      programs.push_back(std::move(named));
  std::vector<Instance> instances;
  const DType type = *dtype_from_name(options.choices.type);
  for (const check::NamedProgram& named : programs) {
    Instance instance = check::instance_of(named.program, type);
    for (size_t i = ir::kFirstParameter; i < instance.symbols.size(); ++i)
      if (const auto given = sizes.find(named.program.symbols[i]); given != sizes.end())
        instance.symbols[i] = given->second;
    instances.push_back(std::move(instance));
  }
  const std::vector<CompiledKernel> kernels = compile_for_cache(
      programs, instances, options.config, options.workers, [&](size_t done, size_t total) {
        progress(shell, fmt::format("{} of {} programs", done, total));
      });
  progress(shell, "");
  if (shell.json) {
    Json list = Json::array();
    for (const CompiledKernel& kernel : kernels) list.push_back(as_json(kernel));
    print_json({{"kernels", list}});
    return kOk;
  }
  std::vector<std::vector<std::string>> rows{
      {"program", "", "kernel", "registers", "spills", "", "way"}};
  int found = 0;
  for (const CompiledKernel& kernel : kernels) {
    found += kernel.from_cache;
    rows.push_back({kernel.program, kernel.layout, kernel.kernel,
                    fmt::format("{}", kernel.registers), fmt::format("{}", kernel.spill_bytes),
                    kernel.from_cache ? "cached" : "compiled", kernel.way});
  }
  print_table(rows, {false, false, false, true, true, false, false});
  fmt::print("\n{} kernels of {} programs; {} were in the cache\n", kernels.size(), programs.size(),
             found);
  return kOk;
}

}  // namespace

void add_compile(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, shell, "compile", "fill the cache of CUDA kernels",
                                  [&shell, options] { return run(shell, *options); });
  command->add_option("FILE", options->files, "FILE, FILE:PROGRAM or programs of the library");
  command->add_flag("--all", options->all, "the whole library");
  command->add_option("--config", options->config,
                      "the configuration: \"pingpong 128x192 2x1 chunk=64\"");
  command->add_option("--workers", options->workers, "compile processes; 0: one per core");
  command->add_option("--type", options->choices.type, "the type parameter T: bf16 or f16")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  command->add_option("--size", options->choices.sizes, "a size parameter: --size dh=64,nq=8")
      ->delimiter(',');
}

}  // namespace coda::tool

// SPDX-License-Identifier: Apache-2.0
// coda explain: what a program or the block of a model costs on paper, beside the unfused sequence.
#include "runtime/explain.h"

#include <coda/error.h>
#include <fmt/core.h>

#include <algorithm>

#include "commands.h"
#include "cuda.h"
#include "explain_model.h"
#include "programs.h"

namespace coda::tool {
namespace {

struct Options {
  std::string file;
  int64_t m = 0, n = 0, k = 0;
  bool cuda = false;
  std::string layout = "NT", config;
  Choices choices;
  ModelOptions model;
};

using Row = std::vector<std::string>;

std::string megabytes(double bytes) { return fmt::format("{:.3f}", bytes / 1e6); }

void add_rows(std::vector<Row>& rows, const char* heading, const std::vector<TensorCost>& tensors) {
  for (const TensorCost& tensor : tensors) {
    rows.push_back({heading, tensor.name, tensor.type, megabytes(tensor.bytes)});
    heading = "";
  }
}

std::string joined(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) result += (result.empty() ? "" : ", ") + text;
  return result.empty() ? "nothing" : result;
}

void print(const Explanation& e) {
  fmt::print("{}: T = {}, M = {}, N = {}", paint(Colour::bold, e.program), name_of(e.type), e.m,
             e.n);
  fmt::print("{}\n\n", e.product_flops > 0 ? fmt::format(", K = {}", e.k) : "");
  std::vector<Row> rows{{"", "tensor", "", "MB"}};
  add_rows(rows, "loads", e.loads);
  add_rows(rows, "stores", e.stores);
  rows.push_back({"moved", "", "", megabytes(e.bytes_loaded() + e.bytes_stored())});
  print_table(rows, {false, false, false, true});

  fmt::print("\ncomputes  {:.3f} GFLOP in products, {:.3f} in the epilogue: {:.1f} FLOP/byte\n",
             e.product_flops / 1e9, e.epilogue_flops / 1e9, e.intensity());
  fmt::print("rounds    {}\n", joined(e.roundings));
  double saved_bytes = 0;
  std::vector<std::string> saved;
  for (const TensorCost& tensor : e.saved) {
    saved.push_back(tensor.name + ": " + tensor.type);
    saved_bytes += tensor.bytes;
  }
  if (e.saved_note.empty())
    fmt::print("saves     {} for the backward, {} MB\n", joined(saved), megabytes(saved_bytes));
  else
    fmt::print("saves     no backward: {}\n", e.saved_note);

  fmt::print("\nunfused, with each group of elementwise work and each reduction a kernel:\n");
  rows = {{"kernel", "reads MB", "writes MB", "GFLOP"}};
  double moved = 0;
  for (const KernelCost& kernel : e.unfused) {
    moved += kernel.read + kernel.written;
    rows.push_back({kernel.work, megabytes(kernel.read), megabytes(kernel.written),
                    fmt::format("{:.3f}", kernel.operations / 1e9)});
  }
  print_table(rows, {false, true, true, true});
  fmt::print(
      "\nmoved     {} MB in {} kernels, {:.2f} x the fused program's; {} roundings against {}\n",
      megabytes(moved), e.unfused.size(),
      moved / std::max(1.0, e.bytes_loaded() + e.bytes_stored()), e.unfused_roundings,
      e.roundings.size());
}

Json tensors(const std::vector<TensorCost>& costs) {
  Json list = Json::array();
  for (const TensorCost& cost : costs)
    list.push_back({{"name", cost.name}, {"type", cost.type}, {"bytes", cost.bytes}});
  return list;
}

Json as_json(const Explanation& e) {
  Json unfused = Json::array();
  for (const KernelCost& kernel : e.unfused)
    unfused.push_back({{"work", kernel.work},
                       {"bytes_read", kernel.read},
                       {"bytes_written", kernel.written},
                       {"flops", kernel.operations}});
  return {{"program", e.program},
          {"type", name_of(e.type)},
          {"m", e.m},
          {"n", e.n},
          {"k", e.k},
          {"loads", tensors(e.loads)},
          {"stores", tensors(e.stores)},
          {"product_flops", e.product_flops},
          {"epilogue_flops", e.epilogue_flops},
          {"flops_per_byte", e.intensity()},
          {"roundings", e.roundings},
          {"saved", tensors(e.saved)},
          {"no_backward", e.saved_note},
          {"unfused", unfused},
          {"unfused_roundings", e.unfused_roundings}};
}

bool has_accumulator(const ir::Program& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(), [](const ir::Input& input) {
    return input.kind == ir::Input::Kind::accumulator;
  });
}

/// The text of one program's kernel: what stands in one output compiles alone.
int print_cuda(const Shell& shell, const Options& options, const std::vector<Program>& programs,
               const std::map<std::string, int64_t>& sizes) {
  if (programs.size() != 1)
    throw Error(ErrorKind::argument, "--cuda", "one program",
                fmt::format("{} in {}", programs.size(), options.file),
                fmt::format("name one: {}:{}", options.file, programs.front().name()));
  const Instance instance = instantiate(programs.front(), options.choices, sizes);
  const CudaText cuda =
      cuda_text(instance, options.m, options.n, options.k, options.layout, options.config);
  if (shell.json)
    print_json({{"program", programs.front().name()}, {"way", cuda.way}, {"cuda", cuda.text}});
  else
    fmt::print("// {}, M = {}, N = {}, K = {}: {}\n{}", programs.front().name(), options.m,
               options.n, options.k, cuda.way, cuda.text);
  return kOk;
}

int explain_programs(const Shell& shell, const Options& options) {
  const std::vector<Program> programs = find_programs(options.file);
  const auto sizes = parse_sizes(options.choices.sizes, programs);
  for (const Program& program : programs)
    if (options.k == 0 && has_accumulator(program.ir()))
      throw Error(ErrorKind::argument, fmt::format("[{}] -k", program.name()),
                  "the depth of the matrix product", "none", "add -k 2048");
  if (options.cuda) return print_cuda(shell, options, programs, sizes);
  Json list = Json::array();
  for (const Program& program : programs) {
    const Instance instance = instantiate(program, options.choices, sizes);
    const Explanation explanation = explain(program, instance, options.m, options.n, options.k);
    if (shell.json) {
      list.push_back(as_json(explanation));
      continue;
    }
    if (&program != &programs.front()) fmt::print("\n");
    print(explanation);
  }
  if (shell.json) print_json({{"programs", list}});
  return kOk;
}

/// Throws unless the command line asks for one thing, a program or a model, and says what it takes.
void check_command(const CLI::App& command) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  const bool model = given("--model");
  if (given("FILE") == model)
    throw Error(ErrorKind::argument, "explain", "a program, FILE, or a model, --model CONFIG",
                model ? "both" : "neither", model ? "leave one of them out" : "name one of them");
  constexpr const char* kOfPrograms[] = {"-m",     "-n",       "-k",      "--size",
                                         "--cuda", "--layout", "--config"};
  constexpr const char* kOfModels[] = {"--tokens", "--machine", "--state", "--programs",
                                       "--dump-passes"};
  const auto refuse = [&](const char* name) {
    if (given(name))
      throw Error(ErrorKind::argument, name,
                  model ? "an option of --model" : "an option of a program",
                  model ? "an option of a program" : "an option of --model",
                  std::string("leave ") + name + " out");
  };
  if (model) {
    for (const char* name : kOfPrograms) refuse(name);
    return;
  }
  for (const char* name : kOfModels) refuse(name);
  if (!given("-m"))
    throw Error(ErrorKind::argument, "-m", "the rows of the program, tokens", "none",
                "add -m 8192");
  if (!given("-n"))
    throw Error(ErrorKind::argument, "-n", "the columns of the program, output features", "none",
                "add -n 2048");
}

int run(const Shell& shell, Options& options, const CLI::App& command) {
  check_command(command);
  options.model.type = options.choices.type;
  return command.count("--model") > 0 ? explain_model(shell, options.model)
                                      : explain_programs(shell, options);
}

}  // namespace

void add_explain(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  // The command is known only once it was added.
  auto self = std::make_shared<CLI::App*>();
  CLI::App* command = add_command(app, shell, "explain", "count bytes, operations and roundings",
                                  [&shell, options, self] { return run(shell, *options, **self); });
  *self = command;
  command->add_option("FILE", options->file, "FILE, FILE:PROGRAM or a program of the library");
  command->add_option("-m,--m", options->m, "rows: tokens");
  command->add_option("-n,--n", options->n, "columns: output features");
  command->add_option("-k,--k", options->k, "input features of the matrix product");
  command->add_flag("--cuda", options->cuda, "print the CUDA text of the kernel instead");
  command
      ->add_option("--layout", options->layout,
                   "of --cuda: NT, the forward product; NN or TN, a gradient")
      ->check(CLI::IsMember({"NT", "NN", "TN"}))
      ->capture_default_str();
  command->add_option("--config", options->config,
                      "of --cuda: the configuration, \"pingpong 128x192 2x1 chunk=64\"");
  add_choices(*command, options->choices);
  ModelOptions& model = options->model;
  command->add_option("--model", model.config,
                      "instead of FILE, a model's config.json or its folder: its block before "
                      "and after rewriting, and memory");
  command->add_option("--tokens", model.tokens, "of --model: tokens of a step");
  command
      ->add_option("--machine", model.machines,
                   "of --model: machines for the time at their roofline, H100, H200 or cpu")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--state", model.state, "of --model: optimizer states, f32 or model")
      ->check(CLI::IsMember({"f32", "model"}))
      ->capture_default_str();
  command->add_flag("--programs", model.programs, "of --model: with the text of every program");
  command->add_flag("--dump-passes", model.dump_passes,
                    "of --model: the IR of the block after each pass instead");
}

}  // namespace coda::tool

// SPDX-License-Identifier: Apache-2.0
// coda grad: the derived backward of a program, and what its forward has to save.
#include <coda/program.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "commands.h"
#include "ir/program.h"
#include "language/printer.h"
#include "programs.h"

namespace coda::tool {
namespace {

struct Options {
  std::string file, into;
  std::vector<std::string> wrt, of, nonzero;
};

/// A tensor that backward reads besides the upstream gradients.
struct Saved {
  std::string name, type;
  const char* origin;  // "input", "output" or "added": an output that the forward gains
};

template <class Declarations>
std::set<std::string> names_of(const Declarations& declarations) {
  std::set<std::string> names;
  for (const auto& declaration : declarations) names.insert(declaration.name);
  return names;
}

std::vector<Saved> find_saved(const Program& original, const Derivative& derivative) {
  const std::set<std::string> inputs = names_of(original.ir().inputs);
  const std::set<std::string> outputs = names_of(original.ir().outputs);
  const std::set<std::string> stored = names_of(derivative.forward.ir().outputs);
  std::vector<Saved> saved;
  for (const ir::Input& input : derivative.backward.ir().inputs) {
    const bool output = stored.contains(input.name);
    if (input.kind != ir::Input::Kind::tensor || (!output && !inputs.contains(input.name)))
      continue;
    const char* origin = outputs.contains(input.name) ? "output" : output ? "added" : "input";
    saved.push_back({input.name,
                     to_string(input.type) + to_string(input.dims, derivative.backward.ir()),
                     origin});
  }
  return saved;
}

void print(const Program& original, const Derivative& derivative, const std::vector<Saved>& saved) {
  const bool added = std::any_of(saved.begin(), saved.end(), [](const Saved& s) {
    return std::string_view(s.origin) == "added";
  });
  if (added)
    fmt::print("# {} with outputs for what its backward needs\n{}\n", original.name(),
               language::print_program(derivative.forward.ir()));
  fmt::print("# the backward of {}; kept from the forward:", original.name());
  const char* separator = " ";
  for (const Saved& s : saved)
    fmt::print("{}{} ({})", std::exchange(separator, ", "), s.name, s.origin);
  fmt::print("{}\n{}", saved.empty() ? " nothing" : "",
             language::print_program(derivative.backward.ir()));
}

int run(const Shell& shell, const Options& options) {
  const std::vector<std::string_view> wrt(options.wrt.begin(), options.wrt.end());
  const std::vector<std::string_view> of(options.of.begin(), options.of.end());
  const std::vector<std::string_view> nonzero(options.nonzero.begin(), options.nonzero.end());
  Json list = Json::array();
  if (!shell.json) fmt::print("coda 1\n");
  for (const Program& program : find_programs(options.file)) {
    Derivative derivative = differentiate(program, {wrt, of, nonzero});
    const std::vector<Saved> saved = find_saved(program, derivative);
    if (!options.into.empty())
      derivative.backward = into_accumulator(derivative.backward, options.into);
    if (!shell.json) {
      fmt::print("\n");
      print(program, derivative, saved);
      continue;
    }
    Json tensors = Json::array();
    for (const Saved& s : saved)
      tensors.push_back({{"name", s.name}, {"type", s.type}, {"origin", s.origin}});
    list.push_back({{"program", program.name()},
                    {"forward", derivative.forward.text()},
                    {"backward", derivative.backward.text()},
                    {"saved", tensors}});
  }
  if (shell.json) print_json({{"programs", list}});
  return kOk;
}

}  // namespace

void add_grad(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, shell, "grad", "derive the backward program",
                                  [&shell, options] { return run(shell, *options); });
  command->add_option("FILE", options->file, "FILE, FILE:PROGRAM or a program of the library")
      ->required();
  command->add_option("--wrt", options->wrt, "inputs to differentiate by: a,b")->delimiter(',');
  command->add_option("--of", options->of, "outputs that have an upstream gradient: y")
      ->delimiter(',');
  command->add_option("--nonzero", options->nonzero, "column vectors that are never 0: rstd")
      ->delimiter(',');
  command->add_option("--into", options->into,
                      "take this upstream gradient, d_y, from the product that makes it");
}

}  // namespace coda::tool

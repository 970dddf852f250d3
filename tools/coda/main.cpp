// SPDX-License-Identifier: Apache-2.0
// The command line: what to do first, which command runs, and what every failure ends as.
#include <coda/version.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "base/nearest.h"
#include "commands.h"

namespace coda::tool {
namespace {

constexpr const char* kFirstSteps =
    "coda {} - Transformer blocks as GEMM-epilogue programs\n\n"
    "Try one of these first:\n"
    "  coda check residual_rms                      run a program and hold it against float64\n"
    "  coda grad rmsnorm_swiglu                     print its derived backward program\n"
    "  coda explain residual_rms -m 8192 -n 2048 -k 2048\n"
    "                                               bytes, FLOPs and roundings, beside the unfused "
    "sequence\n\n"
    "coda train TEXT trains a small Transformer on a text; coda --help lists every command, coda\n"
    "doctor tells what this machine has.\n";

/// Ends the program at once; called from a signal, so only what is safe there.
void interrupt(int) { _exit(kInterrupted); }

int run(int argc, char** argv) {
  Shell shell;
  CLI::App app{"Transformer blocks as GEMM-epilogue programs", "coda"};
  app.set_version_flag("--version", std::string("coda ") + version());
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 ok, 1 a check failed, 2 bad input, 3 no device or not supported here, 130 "
      "interrupted, 143 terminated; coda train saves before the last two.");
  add_check(app, shell);
  add_grad(app, shell);
  add_explain(app, shell);
  add_bench(app, shell);
  add_tune(app, shell);
  add_train(app, shell);
  add_generate(app, shell);
  add_compile(app, shell);
  add_doctor(app, shell);
  shell.command = "coda";
  for (int i = 1; i < argc; ++i) {
    shell.command += std::string(" ") + argv[i];
    if (std::string_view(argv[i]) == "--json")
      shell.json = true;  // usage errors come before parsing ends
  }

  try {
    if (argc == 1) {
      fmt::print(kFirstSteps, version());
      return kOk;
    }
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    const std::string_view word = argv[1];
    if (!word.starts_with('-') && std::find(names.begin(), names.end(), word) == names.end()) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      return report_usage(shell, fmt::format("'{}' is no command of coda", word),
                          suggestion(word, known));
    }
    app.parse(argc, argv);
    progress(shell, "");
    return shell.status;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const bool chosen = !app.get_subcommands().empty();
    return report_usage(shell, error.what(),
                        chosen ? "coda " + app.get_subcommands()[0]->get_name() + " --help"
                               : std::string("coda --help"));
  } catch (const Error& error) {
    progress(shell, "");
    return report(shell, error);
  } catch (const std::bad_alloc&) {
    progress(shell, "");
    return report(shell, Error(ErrorKind::argument, "coda", "sizes that fit this machine's memory",
                               "more than it has", "use a smaller model or fewer tokens"));
  } catch (const std::exception& error) {
    progress(shell, "");
    return report(shell, Error(ErrorKind::internal, "coda", "no failure of coda itself",
                               error.what(), "please report it with the command and its input"));
  }
}

}  // namespace
}  // namespace coda::tool

int main(int argc, char** argv) {
  std::signal(SIGINT, coda::tool::interrupt);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like any other
  return coda::tool::run(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
// What every command shares: the global flags, exit codes, how results, errors and progress are
// shown.
//
// Results go to stdout, as text or with --json as one object that has a "schema" number; errors and
// progress go to stderr, progress only where stderr is a terminal and --quiet is not given.
#pragma once

#include <coda/error.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace coda::tool {

using Json = nlohmann::ordered_json;

enum ExitCode { kOk = 0, kFailed = 1, kBadInput = 2, kNoDevice = 3, kInterrupted = 130 };

inline constexpr int kJsonSchema = 1;

struct Shell {
  bool json = false;
  bool quiet = false;
  int status = kOk;     // of the command that ran
  std::string command;  // the line that was given, "coda" first
};

/// Adds a command with the flags that all have. `run` returns the exit code.
CLI::App* add_command(CLI::App& app, Shell& shell, const std::string& name,
                      const std::string& description, std::function<int()> run);

/// Prints `result` with its schema number as the one object of --json.
void print_json(Json result);

/// Shows a failure on stderr (with --json as an object on stdout); returns the exit code.
int report(const Shell& shell, const Error& error);
int report_usage(const Shell& shell, std::string_view message, std::string_view fix);

/// One line on stderr that the next one replaces; cleared by an empty text.
void progress(const Shell& shell, std::string_view text);

/// Rows of equal length, the first of them the heading; columns flagged `right` are numbers.
void print_table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right);

enum class Colour { red, green, bold };
/// `text` in a colour where stdout is a terminal and NO_COLOR is not set; otherwise as it is.
std::string paint(Colour colour, std::string_view text);

}  // namespace coda::tool

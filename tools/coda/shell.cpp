// SPDX-License-Identifier: Apache-2.0
#include "shell.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace coda::tool {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::check:
    case ErrorKind::internal:
      return kFailed;
    case ErrorKind::device:
    case ErrorKind::unsupported:
      return kNoDevice;
    default:
      return kBadInput;
  }
}

/// Continuation lines of a field are set under its first one.
std::string indented(std::string_view text) {
  std::string result;
  for (char c : text) {
    result += c;
    if (c == '\n') result += std::string(12, ' ');
  }
  return result;
}

bool colours() {
  static const bool result = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0');
  }();
  return result;
}

/// Visible columns of UTF-8 text: code points.
size_t width(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

CLI::App* add_command(CLI::App& app, Shell& shell, const std::string& name,
                      const std::string& description, std::function<int()> run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", shell.json, "print one JSON object");
  command->add_flag("--quiet,-q", shell.quiet, "no progress on stderr");
  command->callback([&shell, run = std::move(run)] { shell.status = run(); });
  return command;
}

void print_json(Json result) {
  Json object{{"schema", kJsonSchema}};
  object.update(result);
  // Names and paths come from outside: bytes that are not UTF-8 are replaced, never refused.
  fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

int report(const Shell& shell, const Error& error) {
  const int code = exit_code(error.kind());
  if (shell.json) {
    print_json({{"error",
                 {{"kind", name_of(error.kind())},
                  {"where", error.where()},
                  {"expected", error.expected()},
                  {"got", error.got()},
                  {"fix", error.fix()},
                  {"exit_code", code}}}});
    return code;
  }
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n  expected  {}\n  got       {}\n", error.where(),
             indented(error.expected()), indented(error.got()));
  if (*error.fix() != '\0') fmt::print(stderr, "  fix       {}\n", indented(error.fix()));
  return code;
}

int report_usage(const Shell& shell, std::string_view message, std::string_view fix) {
  if (shell.json) {
    print_json(
        {{"error",
          {{"kind", "usage"}, {"got", message}, {"fix", fix}, {"exit_code", int{kBadInput}}}}});
    return kBadInput;
  }
  fmt::print(stderr, "error: {}\n", message);
  if (!fix.empty()) fmt::print(stderr, "  fix       {}\n", fix);
  return kBadInput;
}

void progress(const Shell& shell, std::string_view text) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (!terminal || shell.quiet || shell.json) return;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
}

void print_table(const std::vector<std::vector<std::string>>& rows,
                 const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right[i] ? space + row[i] : row[i] + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

std::string paint(Colour colour, std::string_view text) {
  if (!colours()) return std::string(text);
  const int code = colour == Colour::red ? 31 : colour == Colour::green ? 32 : 1;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

}  // namespace coda::tool

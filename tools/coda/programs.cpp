// SPDX-License-Identifier: Apache-2.0
#include "programs.h"

#include <coda/error.h>
#include <fmt/core.h>

#include <charconv>
#include <filesystem>

#include "base/nearest.h"
#include "ir/program.h"
#include "language/library.h"
#include "language/parser.h"

namespace coda::tool {
namespace {

std::vector<Program> wrap(std::vector<ir::Program> parsed) {
  std::vector<Program> programs;
  for (ir::Program& program : parsed)
    programs.emplace_back(std::make_shared<const ir::Program>(std::move(program)));
  return programs;
}

std::vector<Program> programs_of_file(const std::string& path) {
  std::vector<Program> programs = wrap(language::load_file(path));
  if (programs.empty())
    throw Error(ErrorKind::program, path, "a program", "none",
                "write program NAME(...) -> ... { ... }");
  return programs;
}

/// The one of `programs` called `name`.
std::vector<Program> pick(const std::vector<Program>& programs, std::string_view name,
                          const std::string& where) {
  std::vector<std::string_view> known;
  for (const Program& program : programs) {
    if (program.name() == name) return {program};
    known.emplace_back(program.name());
  }
  throw Error(ErrorKind::argument, where, "a program", fmt::format("no program '{}'", name),
              suggestion(name, known));
}

}  // namespace

std::vector<Program> library_programs() {
  std::vector<Program> programs;
  for (const language::LibraryFile& file : language::library_files())
    for (Program& program : wrap(language::parse_file(file.text, file.name)))
      programs.push_back(std::move(program));
  return programs;
}

std::vector<Program> find_programs(const std::string& name) {
  std::error_code error;
  if (std::filesystem::exists(name, error)) return programs_of_file(name);
  const size_t colon = name.rfind(':');
  if (colon != std::string::npos && std::filesystem::exists(name.substr(0, colon), error)) {
    const std::string path = name.substr(0, colon);
    return pick(programs_of_file(path), std::string_view(name).substr(colon + 1), path);
  }
  if (name.find_first_of("/.:") != std::string::npos) return programs_of_file(name);
  return pick(library_programs(), name, "the library");
}

std::vector<Program> find_programs(const std::vector<std::string>& names) {
  std::vector<Program> programs;
  for (const std::string& name : names)
    for (Program& program : find_programs(name)) programs.push_back(std::move(program));
  return programs;
}

void add_choices(CLI::App& command, Choices& choices) {
  command.add_option("--type", choices.type, "the type parameter T: f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command.add_option("--size", choices.sizes, "a size parameter: --size dh=64,nq=8")
      ->delimiter(',');
}

std::map<std::string, int64_t> parse_sizes(const std::vector<std::string>& texts,
                                           const std::vector<Program>& programs) {
  std::vector<std::string_view> known;
  for (const Program& program : programs)
    for (size_t i = ir::kFirstParameter; i < program.ir().symbols.size(); ++i)
      known.emplace_back(program.ir().symbols[i]);
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end || value < 0)
      throw Error(ErrorKind::argument, "--size", "NAME=NUMBER, such as dh=64", "'" + text + "'");
    const std::string name = text.substr(0, equals);
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorKind::argument, "--size", "a size parameter of a program given",
                  "'" + name + "'",
                  known.empty() ? "the programs have no size parameters" : suggestion(name, known));
    sizes[name] = value;
  }
  return sizes;
}

Instance instantiate(const Program& program, const Choices& choices,
                     const std::map<std::string, int64_t>& sizes) {
  std::vector<SizeValue> values;
  const std::vector<std::string>& symbols = program.ir().symbols;
  for (size_t i = ir::kFirstParameter; i < symbols.size(); ++i) {
    const auto at = sizes.find(symbols[i]);
    if (at == sizes.end())
      throw Error(ErrorKind::argument, fmt::format("[{}] size '{}'", program.name(), symbols[i]),
                  "a value", "none", fmt::format("add --size {}=64", symbols[i]));
    values.push_back({at->first, at->second});
  }
  CompileOptions options;
  options.type = *dtype_from_name(choices.type);
  options.sizes = values;
  return coda::instantiate(std::make_shared<const ir::Program>(program.ir()), options);
}

}  // namespace coda::tool

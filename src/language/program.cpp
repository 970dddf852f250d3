// SPDX-License-Identifier: Apache-2.0
// The public Program: text in, text out.
#include <coda/error.h>
#include <coda/program.h>

#include <mutex>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "language/parser.h"
#include "language/printer.h"

namespace coda {

/// Printed when first asked for: most derived programs never are.
struct Program::Text {
  explicit Text(const ir::Program& program) : ir(program) {}
  const ir::Program& ir;
  mutable std::once_flag once;
  mutable std::string text;
};

namespace {

Program select(std::vector<ir::Program> programs, std::string_view name, std::string_view where) {
  std::vector<std::string_view> names;
  for (const ir::Program& program : programs) names.push_back(program.name);
  if (programs.empty())
    throw Error(ErrorKind::program, where, "a program", "none",
                "write program NAME(...) -> ... { }");
  if (name.empty() && programs.size() > 1)
    throw Error(ErrorKind::program, where, "the name of one of several programs", "no name",
                suggestion("", names));
  for (ir::Program& program : programs)
    if (name.empty() || program.name == name)
      return Program(std::make_shared<const ir::Program>(std::move(program)));
  throw Error(ErrorKind::program, where, "the name of a program in it",
              "'" + std::string(name) + "'", suggestion(name, names));
}

}  // namespace

Program::Program(std::shared_ptr<const ir::Program> ir)
    : ir_(std::move(ir)), text_(std::make_shared<const Text>(*ir_)) {}

Program Program::parse(std::string_view text, std::string_view name) {
  return select(language::parse_file(text, "text"), name, "text");
}

Program Program::load(std::string_view path, std::string_view name) {
  return select(language::load_file(path), name, path);
}

const char* Program::name() const noexcept { return ir_->name.c_str(); }

const char* Program::text() const noexcept {
  std::call_once(text_->once, [&] { text_->text = language::print(text_->ir); });
  return text_->text.c_str();
}

}  // namespace coda

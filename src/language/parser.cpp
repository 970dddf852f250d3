// SPDX-License-Identifier: Apache-2.0
#include "language/parser.h"

#include <map>

#include "language/absent.h"
#include "language/declarations.h"
#include "language/expressions.h"
#include "language/library.h"
#include "language/words.h"

namespace coda::language {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kUnmatched = "this bracket closes none";
constexpr std::string_view kSetOnce = "each name is set once: choose another";

class Parser : ExpressionParser {
 public:
  Parser(const Source& source, std::vector<Function> prelude)
      : ExpressionParser(source, std::move(prelude)), own_(functions_.size()) {}

  std::vector<ir::Program> file();
  std::vector<Function> functions() && { return std::move(functions_); }

 private:
  void version();
  void function();
  ir::Program program();
  void inputs();
  void outputs();
  void body();
  void set_output(const Declaration& output, bool set);
  void statement();
  std::string_view statement_fix() const;
  bool at_unmatched() const { return cursor_.is(")") || cursor_.is("]"); }
  std::vector<Value> pair(const std::vector<Token>& names);
  void declare(const Token& name, std::string_view fix = kSetOnce);

  size_t own_;                                         // the file's own fns begin here
  std::vector<std::pair<Declaration, bool>> outputs_;  // and whether the body has set it
};

std::vector<ir::Program> Parser::file() {
  version();
  std::map<std::string, std::string> seen;
  std::vector<ir::Program> programs;
  for (cursor_.skip_newlines(); !cursor_.is(Kind::end); cursor_.skip_newlines()) {
    if (cursor_.is("fn")) {
      function();
    } else if (cursor_.is("program")) {
      const Token name = cursor_.peek(1);
      programs.push_back(program());
      if (const auto [at, added] = seen.emplace(programs.back().name, cursor_.where(name)); !added)
        throw Error(ErrorKind::program, cursor_.where(name),
                    "a program name that is new in this file",
                    describe(name) + ", set at " + at->second, "rename one of them");
    } else {
      cursor_.fail("'fn' or 'program'");
    }
  }
  return programs;
}

void Parser::version() {
  constexpr std::string_view kFix = "begin the file with the line: coda 1";
  cursor_.skip_newlines();
  cursor_.expect("coda", kFix);
  if (!cursor_.is(Kind::integer)) cursor_.fail("the version of the language, an integer", kFix);
  const Token version = cursor_.peek();
  if (version.integer == 0) cursor_.fail("a language version from 1 on", kFix);
  if (version.integer > kVersion)
    cursor_.fail("language version " + std::to_string(kVersion) + " or older",
                 "use a coda that knows language version " + std::string(version.text));
  cursor_.take();
}

void Parser::function() {
  cursor_.expect("fn");
  const Token name = parse_new_name(cursor_, "a name for the fn");
  for (size_t i = own_; i < functions_.size(); ++i)
    if (functions_[i].name == name.text)
      throw Error(ErrorKind::program, cursor_.where(name), "an fn name that is new in this file",
                  describe(name), "rename one of them");
  Function result{name.text, {}, &cursor_.source(), 0};
  scope_ = {{}, &no_sizes_, functions_.size()};
  cursor_.expect("(");
  do {
    const Token parameter = parse_new_name(cursor_, "a name for the parameter");
    if (!scope_.values.emplace(parameter.text, Value()).second)
      throw Error(ErrorKind::program, cursor_.where(parameter), "each name once",
                  describe(parameter), "rename one of them");
    result.parameters.push_back(parameter.text);
  } while (cursor_.accept(","));
  cursor_.expect(")");
  cursor_.expect("=");
  result.body = cursor_.at();
  expression();
  if (!cursor_.is(Kind::newline) && !cursor_.is(Kind::end))
    cursor_.fail("end of line", at_unmatched()
                                    ? kUnmatched
                                    : std::string_view("an fn is one expression on its line"));
  functions_.push_back(std::move(result));
}

ir::Program Parser::program() {
  declared_.clear();
  outputs_.clear();
  work_ = 0;
  cursor_.expect("program");
  const Token name = parse_new_name(cursor_, "a name for the program");
  ir::Builder builder(name.text);
  builder_ = &builder;
  scope_ = {{}, &builder.program(), functions_.size()};
  if (cursor_.accept("<")) {
    do {
      const Token size = parse_new_name(cursor_, "a name for the size");
      declare(size);
      builder.size_parameter(size.text);
    } while (cursor_.accept(","));
    cursor_.expect(">");
  }
  inputs();
  cursor_.expect("->", "name the outputs: -> y: T[m, n]");
  outputs();
  body();
  builder_ = nullptr;
  try {
    return builder.finish();
  } catch (const Error&) {
    rethrow_at(where(name));
  }
}

void Parser::inputs() {
  cursor_.expect("(");
  if (cursor_.accept(")")) return;
  do {
    const Declaration input = parse_declaration(cursor_, builder_->program());
    declare(input.name);
    scope_.values[input.name.text] = build(input.name, [&](ir::Builder& builder) {
      return builder.input({std::string(input.name.text), input.kind, input.type, input.dims});
    });
  } while (cursor_.accept(","));
  cursor_.expect(")");
}

void Parser::outputs() {
  do {
    const Declaration output = parse_output(cursor_, builder_->program());
    declare(output.name,
            scope_.values.count(output.name.text)
                ? "give it another name; a call may bind both to one view ('In place' in "
                  "docs/language.md)"
                : kSetOnce);
    outputs_.emplace_back(output, false);
  } while (cursor_.accept(","));
}

void Parser::body() {
  cursor_.expect("{");
  for (;;) {
    while (cursor_.is(Kind::newline) || cursor_.is(";")) cursor_.take();
    if (cursor_.accept("}")) break;
    statement();
    if (!cursor_.is(Kind::newline) && !cursor_.is(";") && !cursor_.is("}"))
      cursor_.fail("an operator or the end of the statement", statement_fix());
  }
  for (const auto& item : outputs_) set_output(item.first, item.second);
}

/// What helps where a statement goes on with what no operator joins.
std::string_view Parser::statement_fix() const {
  if (at_unmatched()) return kUnmatched;
  if (cursor_.is(Kind::symbol)) return {};
  const std::string_view instead = absent_fix(cursor_.peek().text);
  return instead.empty() ? "write * for a product, or begin a new line" : instead;
}

void Parser::set_output(const Declaration& output, bool set) {
  const std::string name(output.name.text);
  if (!set)
    throw Error(ErrorKind::program, where(output.name), "every output set in the body",
                "no statement that sets '" + name + "'", "add " + name + " = ...");
  build(output.name, [&](ir::Builder& builder) {
    builder.output({name, output.type, output.dims, scope_.values.at(output.name.text).id()});
    return Value();
  });
}

void Parser::statement() {
  std::vector<Token> names;
  do {
    if (cursor_.is("_"))
      names.push_back(cursor_.take());
    else if (cursor_.is(Kind::symbol))
      cursor_.fail("a statement: NAME = ...",
                   "an expression goes on in the next line after an operator");
    else
      names.push_back(parse_new_name(cursor_, "a statement: NAME = ..."));
  } while (cursor_.accept(","));
  cursor_.expect("=");
  const bool two = cursor_.is("split") || cursor_.is("moments");
  if (two != (names.size() == 2))
    throw Error(ErrorKind::syntax, where(names.back()),
                two ? "two names for what " + std::string(cursor_.peek().text) + " gives"
                    : "one name, or two before split or moments",
                std::to_string(names.size()), two ? "write _ for a half that is not used" : "");
  if (!two && names[0].text == "_")
    throw Error(ErrorKind::syntax, where(names[0]), "a name", "'_'",
                "_ stands for an unused half of split or moments");
  const std::vector<Value> values = two ? pair(names) : std::vector<Value>{expression()};
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].text == "_") continue;
    bool output = false;
    for (auto& [declaration, set] : outputs_)
      if (declaration.name.text == names[i].text && !set) output = set = true;
    if (!output) declare(names[i]);
    scope_.values[names[i].text] = values[i];
    builder_->name(values[i], names[i].text);
  }
}

/// split or moments; a half called _ is not built.
std::vector<Value> Parser::pair(const std::vector<Token>& names) {
  const Token name = cursor_.take();
  const bool split = name.text == "split";
  const ir::Dims kept = split ? ir::Dims{} : parse_dims(cursor_, *scope_.sizes);
  cursor_.expect("(");
  const Value arg = expression();
  if (split) cursor_.expect(",");
  const ir::Size half = split ? parse_size(cursor_, *scope_.sizes) : ir::Size{};
  cursor_.expect(")");
  std::vector<Value> values(2);
  for (int part : {0, 1}) {
    if (names[part].text == "_") continue;
    values[part] = build(name, [&](ir::Builder& builder) {
      if (split) return builder.node(ir::Split{arg.id(), half, part});
      const auto op = part == 0 ? ir::ReduceOp::moments_mean : ir::ReduceOp::moments_var;
      return builder.reduce(op, kept, arg);
    });
  }
  return values;
}

void Parser::declare(const Token& name, std::string_view fix) {
  if (const auto [at, added] = declared_.emplace(name.text, name); !added)
    throw Error(ErrorKind::program, where(name), "a name that is new",
                describe(name) + ", set at " + cursor_.where(at->second), fix);
}

const std::vector<Function>& prelude() {
  static const Source source = tokenize(prelude_file().text, prelude_file().name);
  static const std::vector<Function> functions = [] {
    Parser parser(source, {});
    parser.file();
    return std::move(parser).functions();
  }();
  return functions;
}

}  // namespace

std::vector<ir::Program> parse_file(std::string_view text, std::string_view filename) {
  const Source source = tokenize(text, filename);
  return Parser(source, prelude()).file();
}

}  // namespace coda::language

// SPDX-License-Identifier: Apache-2.0
#include "language/expressions.h"

#include <algorithm>
#include <limits>

#include "base/nearest.h"
#include "language/absent.h"
#include "language/declarations.h"
#include "language/words.h"

namespace coda::language {
namespace {

using ir::Op;
using Kind = Token::Kind;

constexpr int kMaxDepth = 200;  // nested brackets and fn calls: what the machine's stack must bear
constexpr int kMaxWork =
    20'000;  // nodes and fn calls of a program: fns that double each other stop here

std::string reduction_fix(std::string_view name) {
  const std::string_view instead = absent_fix(name);
  return instead.empty() ? suggestion(name, reduction_names()) : std::string(instead);
}

}  // namespace

Value ExpressionParser::expression() {
  if (++depth_ > kMaxDepth)
    throw Error(ErrorKind::syntax, where(cursor_.peek()),
                "at most " + std::to_string(kMaxDepth) + " nested brackets and fn calls", "more",
                "name a part of the expression");
  const Value result = binary(kCompare);
  --depth_;
  return result;
}

Value ExpressionParser::binary(int level) {
  if (level == kFactor) return factor();
  const auto accept_operator = [&]() -> const Operator* {
    for (const Operator& row : operators())
      if (row.level == level && cursor_.is(row.text)) return &row;
    return nullptr;
  };
  Value left = binary(level + 1);
  while (const Operator* row = accept_operator()) {
    const Token token = cursor_.take();
    const Value right = binary(level + 1);
    left = build(token, [&](ir::Builder& b) { return b.elementwise(row->op, {left, right}); });
    if (level == kCompare && accept_operator())
      cursor_.fail("one comparison", "put brackets around the first: (a < b) * (b < c)");
  }
  return left;
}

Value ExpressionParser::factor() {
  if (!cursor_.is("-")) return atom();
  const Token minus = cursor_.take();
  if (at_number()) return number(true);
  const Value arg = atom();
  return build(minus, [&](ir::Builder& builder) { return builder.elementwise(Op::neg, {arg}); });
}

bool ExpressionParser::at_number() const {
  return cursor_.is(Kind::integer) || cursor_.is(Kind::real) || cursor_.is("inf") ||
         cursor_.is("nan");
}

Value ExpressionParser::number(bool negative) {
  const Token token = cursor_.peek();
  if (token.kind == Kind::integer && token.integer > static_cast<uint64_t>(INT64_MAX) + negative)
    cursor_.fail("an integer below 2^63", "write a real number: add .0");
  cursor_.take();
  return build(token, [&](ir::Builder& builder) {
    if (token.kind == Kind::integer)
      return builder.integer(static_cast<int64_t>(negative ? -token.integer : token.integer));
    const double value = token.text == "inf"   ? std::numeric_limits<double>::infinity()
                         : token.text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                                               : token.real;
    return builder.real(negative ? -value : value);
  });
}

Value ExpressionParser::atom() {
  if (at_number()) return number(false);
  if (cursor_.is("(")) {
    const Token open = cursor_.take();
    const Value result = expression();
    if (!cursor_.is(")")) cursor_.fail("an operator or ')' to close '(' at " + cursor_.where(open));
    cursor_.take();
    return result;
  }
  if (!cursor_.is(Kind::name)) cursor_.fail("a number, a name or '('");
  return cursor_.is("(", 1) || cursor_.is("[", 1) ? call() : named();
}

Value ExpressionParser::named() {
  const Token token = cursor_.peek();
  if (const auto found = scope_.values.find(token.text); found != scope_.values.end()) {
    cursor_.take();
    return found->second;
  }
  const auto node = [&](ir::Node made) {
    cursor_.take();
    return build(token, [&](ir::Builder& builder) { return builder.node(std::move(made)); });
  };
  if (token.text == "m") return node(ir::Index{true});
  if (token.text == "n") return node(ir::Index{false});
  if (token.text == "M") return node(ir::SizeParameter{ir::kSymbolM});
  if (token.text == "N") return node(ir::SizeParameter{ir::kSymbolN});
  const auto& sizes = scope_.sizes->symbols;
  for (size_t i = ir::kFirstParameter; i < sizes.size(); ++i)
    if (sizes[i] == token.text) return node(ir::SizeParameter{static_cast<int>(i)});
  if (callable_op(token.text))
    cursor_.fail("a value", "write " + std::string(token.text) + "(...)");
  if (is_reserved(token.text)) cursor_.fail("a value", "this word is reserved");
  if (find_function(token.text))
    cursor_.fail("a value", "call the fn: " + std::string(token.text) + "(...)");
  if (declared_.count(token.text) && scope_.sizes != &no_sizes_)
    cursor_.fail("a value that is set above", "set it before it is used");
  const std::string_view instead = absent_fix(token.text);
  cursor_.fail("the name of a value",
               instead.empty() ? suggestion(token.text, known_values()) : std::string(instead));
}

Value ExpressionParser::call() {
  const Token name = cursor_.peek();
  if (name.text == "split" || name.text == "moments")
    cursor_.fail("an expression", std::string(name.text) +
                                      " stands alone on the right of two names: x, y = " +
                                      std::string(name.text) + "...");
  if (cursor_.is("[", 1)) {
    if (!reduction(name.text)) cursor_.fail("a reduction before '['", reduction_fix(name.text));
    return reduce(cursor_.take());
  }
  const auto op = callable_op(name.text);
  if (!op && reduction(name.text))
    cursor_.fail("a reduction that says what is kept",
                 "write " + std::string(name.text) + "[m](...) for one value per row");
  if (name.text == "join" || name.text == "swap" || name.text == "round")
    return special(cursor_.take());
  const auto function = find_function(name.text);
  if (!op && !function) cursor_.fail("the name of an operation or an fn", call_fix(name.text));
  cursor_.take();
  cursor_.expect("(");
  std::vector<Value> arguments;
  do arguments.push_back(expression());
  while (cursor_.accept(","));
  if (!cursor_.is(")")) cursor_.fail("an operator, ',' or ')'");
  cursor_.take();
  const size_t wanted = op ? ir::info(*op).arity : functions_[*function].parameters.size();
  if (arguments.size() != wanted)
    throw Error(ErrorKind::program, where(name),
                std::to_string(wanted) + (wanted == 1 ? " argument" : " arguments") + " of " +
                    std::string(name.text),
                std::to_string(arguments.size()),
                "write " + (op ? signature(*op) : functions_[*function].signature()));
  if (!op) return expand(*function, arguments, name);
  std::array<Value, 3> args;
  std::copy(arguments.begin(), arguments.end(), args.begin());
  return build(name, [&](ir::Builder& builder) { return builder.elementwise(*op, args); });
}

/// What helps where `name` stands before a round bracket and cannot be called.
std::string ExpressionParser::call_fix(std::string_view name) const {
  if (scope_.values.count(name)) return "write * for a product";
  const std::vector<Token>& tokens = cursor_.source().tokens;
  for (size_t i = 1; i < tokens.size(); ++i)
    if (tokens[i - 1].text == "fn" && tokens[i].text == name)
      return "an fn is seen only below the line that defines it";
  if (const std::string_view instead = absent_fix(name); !instead.empty())
    return std::string(instead);
  std::vector<std::string_view> known(callable_names().begin(), callable_names().end());
  for (size_t i = 0; i < scope_.functions; ++i) known.push_back(functions_[i].name);
  if (!nearest(name, known).empty()) return suggestion(name, known);
  return "define it above: fn " + std::string(name) + "(x) = ...";
}

Value ExpressionParser::reduce(const Token& name) {
  const ir::Dims kept = parse_dims(cursor_, *scope_.sizes);
  cursor_.expect("(");
  const Value arg = expression();
  cursor_.expect(")");
  return build(
      name, [&](ir::Builder& builder) { return builder.reduce(*reduction(name.text), kept, arg); });
}

/// join, swap and round: calls whose last arguments are sizes or a type.
Value ExpressionParser::special(const Token& name) {
  const std::string fix = name.text == "round"  ? "write round(x, TYPE)"
                          : name.text == "join" ? "write join(x, y, h)"
                                                : "write swap(x, h, g)";
  cursor_.expect("(");
  const Value a = expression();
  cursor_.expect(",", fix);
  ir::Node node;
  const auto size = [&] { return parse_size(cursor_, *scope_.sizes); };
  if (name.text == "round") {
    node = ir::Round{a.id(), parse_type(cursor_)};
  } else if (name.text == "join") {
    const Value b = expression();
    cursor_.expect(",", fix);
    node = ir::Join{a.id(), b.id(), size()};
  } else {
    const ir::Size half = size();
    cursor_.expect(",", fix);
    node = ir::Swap{a.id(), half, size()};
  }
  cursor_.expect(")", fix);
  return build(name, [&](ir::Builder& builder) { return builder.node(std::move(node)); });
}

std::string Function::signature() const {
  std::string text(name);
  for (size_t i = 0; i < parameters.size(); ++i)
    text += (i == 0 ? "(" : ", ") + std::string(parameters[i]);
  return text + ")";
}

Value ExpressionParser::expand(size_t index, const std::vector<Value>& arguments,
                               const Token& name) {
  if (builder_ == nullptr) return {};
  work(name);
  const Function& function = functions_[index];
  const bool outermost = expanding_.empty();
  if (outermost) expanding_ = cursor_.where(name) + ": fn " + std::string(name.text);
  Scope inner{{}, &no_sizes_, index};
  for (size_t i = 0; i < arguments.size(); ++i)
    inner.values.emplace(function.parameters[i], arguments[i]);
  std::swap(scope_, inner);
  Cursor body(*function.source, function.body);
  std::swap(cursor_, body);
  const Value result = expression();
  std::swap(cursor_, body);
  std::swap(scope_, inner);
  if (outermost) expanding_.clear();
  return result;
}

std::optional<size_t> ExpressionParser::find_function(std::string_view name) const {
  for (size_t i = scope_.functions; i-- > 0;)
    if (functions_[i].name == name) return i;
  return std::nullopt;
}

std::vector<std::string_view> ExpressionParser::known_values() const {
  std::vector<std::string_view> known{"m", "n", "M", "N"};
  for (const auto& [name, value] : scope_.values) known.push_back(name);
  const auto& sizes = scope_.sizes->symbols;
  known.insert(known.end(), sizes.begin() + ir::kFirstParameter, sizes.end());
  return known;
}

std::string ExpressionParser::where(const Token& token) const {
  return expanding_.empty() ? cursor_.where(token) : expanding_;
}

void ExpressionParser::work(const Token& token) {
  if (++work_ > kMaxWork)
    throw Error(ErrorKind::program, where(token),
                "a program of at most " + std::to_string(kMaxWork) + " operations and fn calls",
                "more", "split the program");
}

}  // namespace coda::language

// SPDX-License-Identifier: Apache-2.0
// Parses expressions straight onto ir::Builder. The body of an fn is parsed once where it is
// defined, which checks it, and again at each call, with the arguments in the place of its
// parameters; so no syntax tree exists. Each use of a constant, an index or a size makes a node of
// its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "language/cursor.h"

namespace coda::language {

struct Function {
  std::string_view name;
  std::vector<std::string_view> parameters;
  const Source* source;  // outlives every parser that knows the fn
  size_t body;           // token where the body begins

  /// "softcap(x, cap)"
  std::string signature() const;
};

/// What names mean: in a program's body, or in the body of an fn.
struct Scope {
  std::map<std::string_view, Value> values;
  const ir::Program* sizes;  // whose size parameters are visible
  size_t functions;          // the first so many fns are visible
};

class ExpressionParser {
 protected:
  ExpressionParser(const Source& source, std::vector<Function> functions)
      : cursor_(source), functions_(std::move(functions)) {}

  Value expression();

  /// Where an error at `token` is: inside the body of an fn, where the outermost call stands.
  std::string where(const Token& token) const;

  /// Runs `make` on the builder; its errors get the position of `token`. Nothing while an fn is
  /// defined.
  template <class Make>
  Value build(const Token& token, const Make& make) {
    if (builder_ == nullptr) return {};
    work(token);
    try {
      return make(*builder_);
    } catch (const Error&) {
      rethrow_at(where(token));
    }
  }

  Cursor cursor_;
  std::vector<Function> functions_;  // a later one of a name hides an earlier one
  ir::Builder* builder_ =
      nullptr;  // null while an fn is defined: names and grammar alone are checked
  const ir::Program no_sizes_;
  Scope scope_{{}, &no_sizes_, 0};
  std::map<std::string_view, Token> declared_;  // every name of the program, where it is set
  int work_ = 0;                                // nodes and fn calls of the program so far

 private:
  Value binary(int level);
  Value factor();
  Value atom();
  bool at_number() const;
  Value number(bool negative);
  Value named();
  Value call();
  Value reduce(const Token& name);
  Value special(const Token& name);
  Value expand(size_t function, const std::vector<Value>& arguments, const Token& name);
  std::string call_fix(std::string_view name) const;
  std::optional<size_t> find_function(std::string_view name) const;
  std::vector<std::string_view> known_values() const;
  void work(const Token& token);

  std::string expanding_;  // where the outermost fn call stands
  int depth_ = 0;
};

}  // namespace coda::language

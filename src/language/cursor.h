// SPDX-License-Identifier: Apache-2.0
// Where a parser stands in a source: looks, takes, expects, fails.
#pragma once

#include <string>
#include <string_view>

#include "language/lexer.h"

namespace coda::language {

class Cursor {
 public:
  explicit Cursor(const Source& source, size_t at = 0) : source_(&source), at_(at) {}

  const Source& source() const { return *source_; }
  size_t at() const { return at_; }
  const Token& peek(size_t ahead = 0) const;
  Token take();

  /// Whether the next token is this symbol or word.
  bool is(std::string_view text, size_t ahead = 0) const;
  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool accept(std::string_view text);
  Token expect(std::string_view text, std::string_view fix = {});

  void skip_newlines();
  std::string where(const Token& token) const { return position(*source_, token); }
  /// Throws Error{syntax} at the next token, which is what was got.
  [[noreturn]] void fail(std::string_view expected, std::string_view fix = {}) const;

 private:
  const Source* source_;
  size_t at_;
};

/// The token as an error shows it: "'x'", "end of line".
std::string describe(const Token& token);

/// Rethrows the Error that is being handled with `where` in front of its own place.
[[noreturn]] void rethrow_at(const std::string& where);

}  // namespace coda::language

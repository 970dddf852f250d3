// SPDX-License-Identifier: Apache-2.0
#include "language/cursor.h"

#include <algorithm>

namespace coda::language {

using Kind = Token::Kind;

const Token& Cursor::peek(size_t ahead) const {
  return source_->tokens[std::min(at_ + ahead, source_->tokens.size() - 1)];
}

Token Cursor::take() {
  const Token token = peek();
  if (token.kind == Kind::invalid) throw *source_->error;
  if (at_ + 1 < source_->tokens.size()) ++at_;
  return token;
}

bool Cursor::is(std::string_view text, size_t ahead) const {
  const Token& token = peek(ahead);
  return (token.kind == Kind::name || token.kind == Kind::symbol) && token.text == text;
}

bool Cursor::accept(std::string_view text) {
  if (!is(text)) return false;
  take();
  return true;
}

Token Cursor::expect(std::string_view text, std::string_view fix) {
  if (!is(text)) fail("'" + std::string(text) + "'", fix);
  return take();
}

void Cursor::skip_newlines() {
  while (is(Kind::newline)) take();
}

void Cursor::fail(std::string_view expected, std::string_view fix) const {
  if (peek().kind == Kind::invalid) throw *source_->error;
  throw Error(ErrorKind::syntax, where(peek()), expected, describe(peek()), fix);
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case Kind::newline:
      return "end of line";
    case Kind::end:
      return "end of file";
    default:
      return "'" + std::string(token.text) + "'";
  }
}

void rethrow_at(const std::string& where) {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.where(), error.expected(), error.got(),
                error.fix());
  }
}

}  // namespace coda::language

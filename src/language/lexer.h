// SPDX-License-Identifier: Apache-2.0
// Text to tokens.
//
// Newline tokens appear only where a newline ends something: not inside ( ) or [ ], not in the
// header of a program (from `program` to `{`), not after a binary operator, `=`, `,`, `;` or `->`,
// and never twice in a row. A comment counts as nothing.
//
// Lexing stops at the first character sequence that is no token: it becomes a token `invalid` whose
// error is thrown when the parser gets there, so that errors come in the order of the text and a
// file of a newer language version is told by its first line.
#pragma once

#include <coda/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coda::language {

struct Token {
  enum class Kind : unsigned char { name, integer, real, symbol, newline, end, invalid };
  Kind kind = Kind::end;
  std::string_view text;
  int line = 1, column = 1;  // from 1; columns count bytes
  uint64_t integer = 0;  // kind integer: at most 2^63, which only a minus in front makes an int64
  double real = 0;       // kind real
};

struct Source {
  std::string name;            // file name, for messages
  std::vector<Token> tokens;   // views of the text; the last one is `end` or `invalid`
  std::optional<Error> error;  // of the token `invalid`
};

/// "norm.coda:3:14"
std::string position(const Source& source, const Token& token);

/// `text` must outlive the result.
Source tokenize(std::string_view text, std::string_view name);

}  // namespace coda::language

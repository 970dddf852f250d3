// SPDX-License-Identifier: Apache-2.0
#include "language/lexer.h"

#include <charconv>

namespace coda::language {
namespace {

using Kind = Token::Kind;

// Longer symbols first: the first that matches is taken.
constexpr std::string_view kSymbols[] = {"->", "<=", "==", "!=", ">=", "<", ">", "=",
                                         "+",  "-",  "*",  "/",  "%",  "(", ")", "[",
                                         "]",  "{",  "}",  ",",  ":",  ";"};
constexpr std::string_view kContinued[] = {"->", "<=", "==", "!=", ">=", "<", ">", "=",
                                           "+",  "-",  "*",  "/",  "%",  ",", ";"};

/// What other languages write and this one does not; none is the beginning of something it has.
struct Foreign {
  std::string_view text, fix;
};
constexpr std::string_view kNoPowers = "there are no powers: write x * x or square(x)";
constexpr std::string_view kNoBits =
    "there are no bit operations: use (p) * (q) for and, max(p, q) for or, 1 - p for not";
constexpr std::string_view kSetOnce = "each name is set once: write new = old + ...";
constexpr Foreign kForeign[] = {
    {"**", kNoPowers},
    {"^", kNoPowers},
    {"&&", "use (p) * (q) for and"},
    {"||", "use max(p, q) for or"},
    {"&", kNoBits},
    {"|", kNoBits},
    {"~", kNoBits},
    {"<<", kNoBits},
    {">>", kNoBits},
    {"?", "use where(c, a, b) for a choice"},
    {"!", "use 1 - p for not"},
    {"//", "a comment begins with #, and there is no integer quotient"},
    {"/*", "a comment begins with #"},
    {"+=", kSetOnce},
    {"-=", kSetOnce},
    {"*=", kSetOnce},
    {"/=", kSetOnce},
    {"@", "a matrix product is bound at the call: declare a: acc"},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view name) : text_(text) { source_.name = name; }

  Source run() {
    while (source_.tokens.empty() || (last().kind != Kind::end && last().kind != Kind::invalid))
      next();
    return std::move(source_);
  }

 private:
  const Token& last() const { return source_.tokens.back(); }
  char at(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Token token(Kind kind, size_t length) {
    Token result{kind, text_.substr(at_, length), line_, static_cast<int>(at_ - line_begin_) + 1};
    at_ += length;
    return result;
  }

  void invalid(std::string_view expected, std::string_view got, std::string_view fix) {
    const Token bad = token(Kind::invalid, 1);
    source_.error.emplace(ErrorKind::syntax, position(source_, bad), expected, got, fix);
    source_.tokens.push_back(bad);
  }

  bool newline_ends_something() const {
    if (depth_ > 0 || header_ || source_.tokens.empty() || last().kind == Kind::newline)
      return false;
    for (std::string_view symbol : kContinued)
      if (last().kind == Kind::symbol && last().text == symbol) return false;
    return true;
  }

  void next() {
    const char c = at(0);
    if (at_ >= text_.size()) {
      source_.tokens.push_back(token(Kind::end, 0));
    } else if (c == '\n') {
      const Token end = token(Kind::newline, 1);
      if (newline_ends_something()) source_.tokens.push_back(end);
      ++line_;
      line_begin_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (is_digit(c)) {
      number();
    } else if (is_letter(c)) {
      size_t length = 1;
      while (is_letter(at(length)) || is_digit(at(length))) ++length;
      source_.tokens.push_back(token(Kind::name, length));
      if (last().text == "program") header_ = true;
    } else {
      symbol();
    }
  }

  void symbol() {
    for (const Foreign& foreign : kForeign)
      if (text_.substr(at_, foreign.text.size()) == foreign.text && text_.substr(at_, 2) != "!=")
        return invalid("a symbol of the language", "'" + std::string(foreign.text) + "'",
                       foreign.fix);
    for (std::string_view symbol : kSymbols) {
      if (text_.substr(at_, symbol.size()) != symbol) continue;
      source_.tokens.push_back(token(Kind::symbol, symbol.size()));
      if (symbol == "(" || symbol == "[") ++depth_;
      if ((symbol == ")" || symbol == "]") && depth_ > 0) --depth_;
      if (symbol == "{" || symbol == "}") depth_ = 0, header_ = false;
      return;
    }
    const auto byte = static_cast<unsigned char>(at(0));
    constexpr char kHexadecimal[] = "0123456789abcdef";
    const std::string got =
        byte > ' ' && byte < 0x7f
            ? std::string("'") + at(0) + "'"
            : std::string("byte 0x") + kHexadecimal[byte / 16] + kHexadecimal[byte % 16];
    if (byte == '.')
      invalid("a digit before the point", got, "write 0.5, not .5");
    else
      invalid("a name, a number or a symbol", got,
              byte < 0x7f ? "" : "programs are ASCII outside comments");
  }

  void number() {
    size_t length = 1;
    while (is_digit(at(length))) ++length;
    bool real = false;
    if (at(length) == '.') {
      if (!is_digit(at(length + 1)))
        return invalid("a digit after the point",
                       "'" + std::string(text_.substr(at_, length + 1)) + "'", "write 1.0, not 1.");
      real = true;
      while (is_digit(at(++length))) {
      }
    }
    if (at(length) == 'e' || at(length) == 'E') {
      const size_t sign = at(length + 1) == '+' || at(length + 1) == '-';
      if (is_digit(at(length + 1 + sign))) {
        real = true;
        length += 1 + sign;
        while (is_digit(at(length))) ++length;
      }
    }
    Token result = token(real ? Kind::real : Kind::integer, length);
    const char* end = result.text.data() + result.text.size();
    const auto code = real ? std::from_chars(result.text.data(), end, result.real).ec
                           : std::from_chars(result.text.data(), end, result.integer).ec;
    if (code == std::errc() && result.integer <= uint64_t{1} << 63) {
      source_.tokens.push_back(result);
      return;
    }
    at_ -= length;
    if (real)
      invalid("a number that a double can hold", std::string(result.text),
              "write inf or 0.0 where that is meant");
    else
      invalid("an integer below 2^63", std::string(result.text), "write a real number: add .0");
  }

  std::string_view text_;
  Source source_;
  size_t at_ = 0, line_begin_ = 0;
  int line_ = 1;
  int depth_ = 0;
  bool header_ = false;
};

}  // namespace

std::string position(const Source& source, const Token& token) {
  return source.name + ":" + std::to_string(token.line) + ":" + std::to_string(token.column);
}

Source tokenize(std::string_view text, std::string_view name) { return Lexer(text, name).run(); }

}  // namespace coda::language

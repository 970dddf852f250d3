// SPDX-License-Identifier: Apache-2.0
// The place of a failure in a call: program, argument, and which of its parts. Text is made only
// when something is refused.
#pragma once

#include <coda/error.h>

#include <span>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace coda {

struct Where {
  const ir::Program& program;
  std::string_view name;  // of the argument; empty: the call as a whole
  int product = -1;       // which term of an accumulator
  char operand = 0;       // 'A' or 'B' of that term
  int segment = -1;       // which of several tensors side by side

  std::string text() const {
    std::string text = "[" + program.name + "]";
    if (!name.empty()) text += " argument '" + std::string(name) + "'";
    if (product >= 0) text += ", product " + std::to_string(product);
    if (operand) text += std::string(", operand ") + operand;
    if (segment >= 0) text += ", segment " + std::to_string(segment);
    return text;
  }

  [[noreturn]] void refuse(ErrorKind kind, std::string_view expected, std::string_view got,
                           std::string_view fix) const {
    throw Error(kind, text(), expected, got, fix);
  }
};

/// The value of a size; the text of the place is made only where it is refused.
template <class Text>
int64_t evaluate_at(const ir::Size& size, std::span<const int64_t> symbols, const Text& where) {
  try {
    return evaluate(size, symbols, "");
  } catch (const Error&) {
    return evaluate(size, symbols, where());
  }
}

}  // namespace coda

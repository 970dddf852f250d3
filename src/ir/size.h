// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes: a rational number times a product of symbols, such as n/2, 2n, dh/2 or nq*dh.
//
// Symbol 0 is N (columns), symbol 1 is M (rows), symbols from 2 on are the size parameters of a
// program. The form is normal (lowest terms, sorted symbols), so equal sizes compare equal. A size
// is evaluated exactly or refused: dh/2 with an odd dh is an error, never a truncation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace coda::ir {

struct Size {
  int64_t numerator = 1;
  int64_t denominator = 1;
  std::vector<std::pair<int, int>> powers;  // (symbol, exponent != 0), sorted by symbol

  bool operator==(const Size&) const = default;
  bool is_constant() const { return powers.empty(); }
};

inline constexpr int kSymbolN = 0;
inline constexpr int kSymbolM = 1;
inline constexpr int kFirstParameter = 2;

Size constant_size(int64_t value);
Size symbol_size(int symbol);
Size operator*(const Size& a, const Size& b);
Size operator/(const Size& a, const Size& b);

/// Value of `size` where symbol i has values[i]. Throws Error{shape} when the division is not
/// exact, the value is not positive (`where` names the use), or it overflows. N and M may be 0.
int64_t evaluate(const Size& size, std::span<const int64_t> values, std::string_view where);

/// "dh/2", "nq*dh", "128"; `names[i]` is the name of symbol i.
std::string to_string(const Size& size, std::span<const std::string> names);

}  // namespace coda::ir

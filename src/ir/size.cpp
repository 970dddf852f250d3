// SPDX-License-Identifier: Apache-2.0
#include "ir/size.h"

#include <numeric>

#include "base/checked.h"

namespace coda::ir {
namespace {

constexpr std::string_view kWhere = "a size";

Size normal(int64_t numerator, int64_t denominator, std::vector<std::pair<int, int>> powers) {
  if (denominator == 0)
    throw Error(ErrorKind::program, kWhere, "a divisor other than 0", "0",
                "divide by a positive size");
  const int64_t divisor = std::gcd(numerator, denominator);
  Size result{numerator / divisor, denominator / divisor, {}};
  for (const auto& power : powers)
    if (power.second != 0) result.powers.push_back(power);
  return result;
}

Size combine(const Size& a, const Size& b, int sign) {
  std::vector<std::pair<int, int>> powers = a.powers;
  for (const auto& [symbol, exponent] : b.powers) {
    auto at = powers.begin();
    while (at != powers.end() && at->first < symbol) ++at;
    if (at != powers.end() && at->first == symbol)
      at->second += sign * exponent;
    else
      powers.insert(at, {symbol, sign * exponent});
  }
  const int64_t up = sign > 0 ? b.numerator : b.denominator;
  const int64_t down = sign > 0 ? b.denominator : b.numerator;
  return normal(checked_multiply(a.numerator, up, kWhere),
                checked_multiply(a.denominator, down, kWhere), std::move(powers));
}

}  // namespace

Size constant_size(int64_t value) { return {value, 1, {}}; }
Size symbol_size(int symbol) { return {1, 1, {{symbol, 1}}}; }
Size operator*(const Size& a, const Size& b) { return combine(a, b, 1); }
Size operator/(const Size& a, const Size& b) { return combine(a, b, -1); }

int64_t evaluate(const Size& size, std::span<const int64_t> values, std::string_view where) {
  int64_t numerator = size.numerator, denominator = size.denominator;
  for (const auto& [symbol, exponent] : size.powers) {
    for (int i = 0; i < exponent; ++i)
      numerator = checked_multiply(numerator, values[symbol], where);
    for (int i = 0; i < -exponent; ++i)
      denominator = checked_multiply(denominator, values[symbol], where);
  }
  if (denominator <= 0 || numerator < 0)
    throw Error(ErrorKind::shape, where, "sizes above 0",
                std::to_string(numerator) + " / " + std::to_string(denominator));
  if (numerator % denominator != 0)
    throw Error(ErrorKind::shape, where, "a size that divides exactly",
                std::to_string(numerator) + " / " + std::to_string(denominator),
                "choose sizes for which the division has no remainder");
  return numerator / denominator;
}

std::string to_string(const Size& size, std::span<const std::string> names) {
  std::string above, below;
  const auto append = [](std::string& text, const std::string& factor) {
    if (!text.empty()) text += "*";
    text += factor;
  };
  if (size.numerator != 1) append(above, std::to_string(size.numerator));
  for (const auto& [symbol, exponent] : size.powers) {
    for (int i = 0; i < exponent; ++i) append(above, names[symbol]);
    for (int i = 0; i < -exponent; ++i) below += "/" + names[symbol];
  }
  if (above.empty()) above = "1";
  if (size.denominator != 1) below += "/" + std::to_string(size.denominator);
  return above + below;
}

}  // namespace coda::ir

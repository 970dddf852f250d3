// SPDX-License-Identifier: Apache-2.0
// A value of a program under construction. Arithmetic on values builds the same nodes that the
// parser builds from text; a number stands for a constant. Every function throws
// coda::Error{program} when the operands do not fit, naming the rule. A value lives as long as the
// builder that made it.
#pragma once

#include <coda/export.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace coda {

namespace ir {
class Builder;
}

class CODA_API Value {
 public:
  Value() = default;
  Value(std::floating_point auto number) : real_(number) {}  // NOLINT: constants read as in text
  Value(std::integral auto number) : integral_(true), integer_(number) {}  // NOLINT
  Value(ir::Builder* builder, int id) : builder_(builder), id_(id) {}

  ir::Builder* builder() const { return builder_; }  // null for a bare number
  int id() const { return id_; }
  bool is_number() const { return builder_ == nullptr; }
  bool is_integral() const { return integral_; }
  double real() const { return real_; }
  int64_t integer() const { return integer_; }

 private:
  ir::Builder* builder_ = nullptr;
  int id_ = -1;
  bool integral_ = false;
  double real_ = 0;
  int64_t integer_ = 0;
};

/// The elementwise operation `name` of <coda/elementwise.def> on its operands.
CODA_API Value apply(std::string_view name, std::initializer_list<Value> operands);

#define CODA_VALUE_1(name) \
  inline Value name(Value a) { return apply(#name, {a}); }
#define CODA_VALUE_2(name) \
  inline Value name(Value a, Value b) { return apply(#name, {a, b}); }
#define CODA_VALUE_3(name) \
  inline Value name(Value a, Value b, Value c) { return apply(#name, {a, b, c}); }
#define CODA_OP(name, arity, ...) CODA_VALUE_##arity(name)
#include <coda/elementwise.def>
#undef CODA_VALUE_1
#undef CODA_VALUE_2
#undef CODA_VALUE_3

inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return sub(a, b); }
inline Value operator*(Value a, Value b) { return mul(a, b); }
inline Value operator/(Value a, Value b) { return div(a, b); }
inline Value operator%(Value a, Value b) { return rem(a, b); }
inline Value operator-(Value a) { return neg(a); }
inline Value operator<(Value a, Value b) { return lt(a, b); }
inline Value operator<=(Value a, Value b) { return le(a, b); }
inline Value operator>(Value a, Value b) { return gt(a, b); }
inline Value operator>=(Value a, Value b) { return ge(a, b); }

}  // namespace coda

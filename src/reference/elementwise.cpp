// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/convert.h"
#include "reference/bounded.h"
#include "reference/internal.h"

namespace coda::reference {
namespace {

using ir::Op;

/// Applies `f` to the elements of one to three operands.
template <class F>
Dense map(const std::array<const Dense*, 3>& args, int arity, const F& f) {
  Dense result = make({args[0]->rows, args[0]->columns}, false);
  bool exact = true;
  result.error.resize(result.value.size());
  const auto at = [&](int operand, size_t i) {
    if (operand >= arity) return Bounded{};
    const Dense& x = *args[operand];
    if (x.value.empty()) return Bounded{static_cast<double>(x.integer[i]), error_at(x, i)};
    return Bounded{x.value[i], error_at(x, i)};
  };
  for (size_t i = 0; i < result.value.size(); ++i) {
    const Bounded y = f(at(0, i), at(1, i), at(2, i));
    result.value[i] = y.value;
    result.error[i] = y.error;
    exact = exact && y.error == 0;
  }
  if (exact) result.error.clear();
  return result;
}

template <Op op>
Bounded contract_rule(Bounded a, Bounded b, Bounded c) {
  constexpr ir::OpKind kind = [] {
    using enum ir::OpKind;
#define CODA_OP(name_, arity_, kind_, ...) \
  if (op == Op::name_) return kind_;
#include <coda/elementwise.def>
  }();
  if constexpr (op == Op::abs)
    return absolute(a);
  else if constexpr (op == Op::neg)
    return {-a.value, a.error};
  else if constexpr (op == Op::min)
    return extreme(a, b, -1);
  else if constexpr (op == Op::max)
    return extreme(a, b, 1);
  else if constexpr (op == Op::clamp)
    return extreme(extreme(a, b, 1), c, -1);
  else if constexpr (op == Op::where)
    return select(a, b, c);
  else if constexpr (kind == ir::OpKind::compare)
    return compared<op>(a, b);
  else
    return smooth<op>(a, b, c);
}

/// Distance of the operands from a kink of the operation.
template <Op op>
double kink_distance(double a, double b, double c) {
  if constexpr (op == Op::abs) return std::fabs(a);
  if constexpr (op == Op::clamp) return std::min(std::fabs(a - b), std::fabs(a - c));
  if constexpr (op == Op::min || op == Op::max || op == Op::lt || op == Op::le || op == Op::eq ||
                op == Op::ne || op == Op::ge || op == Op::gt)
    return std::fabs(a - b);
  return kInfinity;
}

Dense real_elementwise(Op op, const std::array<const Dense*, 3>& args, const Options& options) {
  const bool contract = options.mode == Mode::contract;
  switch (op) {
#define CODA_OP(name_, arity_, ...)                                               \
  case Op::name_:                                                                 \
    if (contract) return map(args, arity_, contract_rule<Op::name_>);             \
    return map(args, arity_, [&](Bounded a, Bounded b, Bounded c) {               \
      near_kink(options, kink_distance<Op::name_>(a.value, b.value, c.value));    \
      return Bounded{table::Row<Op::name_>::value(a.value, b.value, c.value), 0}; \
    });
#include <coda/elementwise.def>
  }
  return {};
}

int64_t wrap(uint64_t x) { return static_cast<int64_t>(x); }

/// Exact 64-bit arithmetic, which wraps.
int64_t integer_value(Op op, int64_t a, int64_t b, int64_t c) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case Op::add:
      return wrap(ua + ub);
    case Op::sub:
      return wrap(ua - ub);
    case Op::mul:
      return wrap(ua * ub);
    case Op::neg:
      return wrap(0 - ua);
    case Op::abs:
      return a < 0 ? wrap(0 - ua) : a;
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
    case Op::clamp:
      return std::min(std::max(a, b), c);
    case Op::where:
      return a != 0 ? b : c;
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::eq:
      return a == b;
    case Op::ne:
      return a != b;
    case Op::ge:
      return a >= b;
    case Op::gt:
      return a > b;
    case Op::rem: {
      if (b == 0 || b == -1) return 0;
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    default:
      break;
  }
  throw Error(ErrorKind::internal, "reference", "an operation on integers", ir::info(op).name);
}

/// How far the result may be off where an operand is uncertain (an argmax, a mask at a tie).
double integer_error(Op op, const std::array<int64_t, 3>& x, const std::array<double, 3>& e) {
  const auto size = [&](int i) { return std::fabs(static_cast<double>(x[i])); };
  const auto as_bounded = [&](int i) { return Bounded{static_cast<double>(x[i]), e[i]}; };
  if (e[0] + e[1] + e[2] == 0) return 0;
  switch (op) {
    case Op::add:
    case Op::sub:
      return e[0] + e[1];
    case Op::mul:
      return size(0) * e[1] + size(1) * e[0] + e[0] * e[1];
    case Op::neg:
    case Op::abs:
      return e[0];
    case Op::min:
    case Op::max:
      return std::max(e[0], e[1]);
    case Op::clamp:
      return std::max({e[0], e[1], e[2]});
    case Op::where:
      return select(as_bounded(0), as_bounded(1), as_bounded(2)).error;
    case Op::rem:
      return size(1) + e[1];
    default:
      return may_be_equal(as_bounded(0), as_bounded(1)) ? 1 : 0;
  }
}

Dense integer_elementwise(Op op, const std::array<const Dense*, 3>& args) {
  const int arity = ir::info(op).arity;
  Dense result = make({args[0]->rows, args[0]->columns}, true);
  bool exact = true;
  for (int k = 0; k < arity; ++k) exact = exact && args[k]->error.empty();
  if (!exact) result.error.resize(result.integer.size());
  for (size_t i = 0; i < result.integer.size(); ++i) {
    std::array<int64_t, 3> x{};
    std::array<double, 3> e{};
    for (int k = 0; k < arity; ++k) x[k] = args[k]->integer[i], e[k] = error_at(*args[k], i);
    result.integer[i] = integer_value(op, x[0], x[1], x[2]);
    if (!exact) result.error[i] = integer_error(op, x, e);
  }
  trim(result);
  return result;
}

/// A comparison made on floats, as integers.
Dense to_mask(Dense x) {
  x.integer.assign(x.value.begin(), x.value.end());
  x.value.clear();
  return x;
}

}  // namespace

Dense to_real(Dense x, Mode mode) {
  if (x.integer.empty()) return x;
  x.value.resize(x.integer.size());
  for (size_t i = 0; i < x.integer.size(); ++i) {
    if (mode == Mode::exact) {
      x.value[i] = static_cast<double>(x.integer[i]);
    } else {
      const Bounded y = real_of(x.integer[i], error_at(x, i));
      x.value[i] = y.value;
      if (!x.error.empty()) x.error[i] = y.error;
    }
  }
  x.integer.clear();
  return x;
}

Dense elementwise(Op op, const std::array<const Dense*, 3>& args, bool integer_result,
                  const Options& options) {
  const ir::OpInfo& info = ir::info(op);
  bool all_integer = info.kind != ir::OpKind::real;
  const int first = info.kind == ir::OpKind::select ? 1 : 0;
  for (int i = first; i < info.arity; ++i) all_integer = all_integer && args[i]->value.empty();
  if (all_integer) return integer_elementwise(op, args);
  std::array<Dense, 3> converted;
  std::array<const Dense*, 3> reals = args;
  for (int i = first; i < info.arity; ++i) {
    if (args[i]->integer.empty()) continue;
    converted[i] = to_real(*args[i], options.mode);
    reals[i] = &converted[i];
  }
  Dense result = real_elementwise(op, reals, options);
  return integer_result ? to_mask(std::move(result)) : result;
}

Dense product(const Dense& integer, const Dense& real, const Options& options) {
  const bool contract = options.mode == Mode::contract;
  return map({&integer, &real, nullptr}, 2, [&](Bounded i, Bounded x, Bounded) {
    const double y = i.value * x.value;
    if (!contract) return Bounded{y, 0};
    const double error = i.error * std::fabs(x.value) + (std::fabs(i.value) + i.error) * x.error;
    return in_range(y, error + std::fabs(y) * 0x1p-44);  // two floats hold 48 bits
  });
}

Dense sine_of_product(Op op, const Dense& product, const Options& options) {
  const bool contract = options.mode == Mode::contract;
  return map({&product, nullptr, nullptr}, 1, [&](Bounded t, Bounded, Bounded) {
    const double y = op == Op::sin ? std::sin(t.value) : std::cos(t.value);
    if (!contract) return Bounded{y, 0};
    // Both are bounded and have slopes of at most 1; near their zeros the error stays absolute.
    const double slope = op == Op::sin ? std::cos(t.value) : std::sin(t.value);
    const double propagated = t.error * std::min(1.0, std::fabs(slope) + t.error);
    return in_range(y, std::min(2.0, propagated) + 0x1p-22);
  });
}

Dense round(Dense x, DType type) {
  if (type == DType::f32 || type == DType::f64) return x;
  for (size_t i = 0; i < x.value.size(); ++i) {
    const double e = error_at(x, i), v = x.value[i], y = round_to(v, type);
    x.value[i] = y;
    if (e == 0) continue;
    const auto distance = [&](double end) {
      const double z = round_to(end, type);
      return z == y || (z != z && y != y) ? 0 : std::fabs(z - y);
    };
    const double error = std::max(distance(v - e), distance(v + e));
    x.error[i] = error == error && e < kInfinity ? error : kInfinity;
  }
  trim(x);
  return x;
}

double round_to(double value, DType type) {
  unsigned char memory[8];
  store_element(memory, type, value);
  return load_element(memory, type);
}

double ulp_of(double x, DType type) {
  switch (type) {
    case DType::f64:
      return ulp(x, 52, 0x1p-1074);
    case DType::f32:
      return ulp32(x);
    case DType::bf16:
      return ulp(x, 7, 0x1p-133);
    case DType::f16:
      return ulp(x, 10, 0x1p-24);
    case DType::e4m3:
      return ulp(x, 3, 0x1p-9);
    case DType::e5m2:
      return ulp(x, 2, 0x1p-16);
    default:
      return 0;
  }
}

}  // namespace coda::reference

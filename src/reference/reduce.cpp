// SPDX-License-Identifier: Apache-2.0
// Reductions: the elements that make up one result are collected, then reduced as a list.
//
// Errors of the float32 evaluation that the bounds allow for, u = 2^-24 and n terms:
//   sum        (2 + n/16) u sum|t|: up to 16 running sums, or any tree.
//   mean       that of the sum over n, and two roundings (the quotient, or a product with 1/n).
//   logsumexp  s = sum exp(t - max): the difference is off by u |t - max|, exp by 2 ulp = 4 u, the
//   sum as
//              above. A running maximum multiplies s by exp(old - new) on each change: about ln n
//              times in any order but the worst; the differences add up to at most |t - max|, each
//              product costs 5 u. So s is off by a factor 1 + (2 + n/16 + 4 + 5 log2(n + 1)) u + u
//              sum p|t - max| (p: the term's share of s), which is the absolute error of log s; log
//              itself and the last sum add their roundings. Errors of the terms move the result by
//              at most log(sum p exp(error)).
//   moments    The mean as above. Let d = t - mean; means (of the whole, of parts, running) are off
//   by
//              at most h = (2 + n/16) u mean|t|. Then every d is off by h + u|d|, which moves the
//              variance, the mean of d^2, by at most 2 h mean|d| + h^2 + 2 u var; squares and their
//              sum add (3 + n/16) u var. Terms off by e move it by mean(2 |d| e + e^2). A variance
//              made as mean(t^2) - mean^2 is far outside of this where |mean| is large, as it
//              should be.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/bounded.h"
#include "reference/internal.h"

namespace coda::reference {
namespace {

using ir::Columns;
using ir::ReduceOp;
using Kind = ir::Columns::Kind;

constexpr double kUnit = 0x1p-24;

template <class T>
struct Term {
  T value;
  double error;
  int64_t index;
};
using Terms = std::vector<Term<double>>;

double sum_unit(size_t n) { return (2 + static_cast<double>(n) / 16) * kUnit; }

/// Sum, sum of magnitudes and sum of errors.
struct Sums {
  double value = 0, size = 0, error = 0;
};

Sums add_up(const Terms& terms) {
  Sums sums;
  double lost = 0;  // Neumaier: the reference keeps what float64 sums lose
  for (const auto& t : terms) {
    const double next = sums.value + t.value;
    lost += std::fabs(sums.value) >= std::fabs(t.value) ? (sums.value - next) + t.value
                                                        : (t.value - next) + sums.value;
    sums.value = next;
    if (std::isfinite(t.value)) sums.size += std::fabs(t.value) + t.error;
    sums.error += t.error;
  }
  if (std::isfinite(sums.value)) sums.value += lost;
  return sums;
}

/// A sum whose order is free overflows in some orders only.
bool may_overflow(const Sums& sums) { return sums.size * (1 + 1e-4) > kFloatMax; }

Bounded sum(const Terms& terms) {
  const Sums sums = add_up(terms);
  const double error = sums.error + sum_unit(terms.size()) * sums.size;
  if (may_overflow(sums)) return {sums.value, kInfinity};
  return in_range(sums.value, error);
}

Bounded mean(const Terms& terms) {
  const double n = static_cast<double>(terms.size());
  const Bounded total = sum(terms);
  const double value = total.value / n;
  return rounded(value, total.error / n, 1);
}

/// Of magnitudes that overflow nowhere, all at once: NaN wins, then infinities, as in any order.
Bounded largest(const Terms& terms, double sign, const Options& options) {
  double best = -kInfinity, second = -kInfinity, low = -kInfinity, high = -kInfinity;
  bool any = false;
  for (const auto& t : terms) {
    if (std::isnan(t.value) && t.error == 0) return {t.value, 0};
    any = any || t.error == kInfinity;
    const double v = sign * t.value;
    second = v > best ? best : std::max(second, v);
    best = std::max(best, v);
    low = std::max(low, v - t.error);
    high = std::max(high, v + t.error);
  }
  if (terms.size() > 1) near_kink(options, best - second);
  if (any) return {sign * best, kInfinity};
  return {sign * best, std::isfinite(best) ? std::max(best - low, high - best) : 0};
}

Bounded logsumexp(const Terms& terms) {
  double top = -kInfinity, error_top = 0;
  for (const auto& t : terms) {
    if (std::isnan(t.value)) return {t.value, t.error == kInfinity ? kInfinity : 0};
    top = std::max(top, t.value);
    error_top = std::max(error_top, t.error);
  }
  if (error_top == kInfinity) return {top, kInfinity};
  if (!std::isfinite(top)) return {top, 0};
  double s = 0, spread = 0, raised = 0;
  for (const auto& t : terms) {
    const double p = std::exp(t.value - top);
    s += p;
    if (p > 0) spread += p * (top - t.value);
    raised += p * std::expm1(std::min(t.error, 700.0));
  }
  const double log_s = std::log(s), n = static_cast<double>(terms.size());
  const double factor =
      sum_unit(terms.size()) + (4 + 5 * std::log2(n + 1)) * kUnit + kUnit * spread / s;
  const double error = std::log1p(raised / s) + factor + 2 * ulp32(log_s);
  return rounded(top + log_s, error, 1);
}

Bounded variance(const Terms& terms) {
  const double n = static_cast<double>(terms.size());
  const Sums sums = add_up(terms);
  const double center = sums.value / n;
  double squares = 0, distance = 0, propagated = 0;
  for (const auto& t : terms) {
    const double d = t.value - center;
    squares += d * d;
    distance += std::fabs(d);
    propagated += t.error > 0 ? (2 * std::fabs(d) + t.error) * t.error : 0;
  }
  const double value = squares / n, h = sum_unit(terms.size()) * sums.size / n;
  const double own =
      2 * h * distance / n + h * h + (2 * kUnit + sum_unit(terms.size()) + kUnit) * value;
  if (may_overflow(sums) || squares + propagated > kFloatMax) return {value, kInfinity};
  return rounded(value, own + propagated / n, 1);
}

/// The order of argmax: NaN counts as the largest.
template <class T>
bool is_larger(T a, T b) {
  return a > b || (a != a && b == b);
}

/// The first of the largest, and how far away an element is that may be it.
template <class T>
Bounded argmax(const std::vector<Term<T>>& terms, const Options& options) {
  if (terms.empty()) return {-1, 0};
  const Term<T>* best = &terms[0];
  for (const auto& t : terms)
    if (is_larger(t.value, best->value)) best = &t;
  double spread = 0;
  for (const auto& t : terms) {
    if (&t == best) continue;
    const double distance = static_cast<double>(best->value) - static_cast<double>(t.value);
    near_kink(options, std::fabs(distance));
    const double error = t.error + best->error;
    if (error > 0 && (error == kInfinity || distance <= error))
      spread = std::max(spread, std::fabs(static_cast<double>(t.index - best->index)));
  }
  return {static_cast<double>(best->index), spread};
}

Bounded reduce_reals(ReduceOp op, const Terms& terms, const Options& options) {
  switch (op) {
    case ReduceOp::sum:
      return sum(terms);
    case ReduceOp::mean:
    case ReduceOp::moments_mean:
      return mean(terms);
    case ReduceOp::max:
      return largest(terms, 1, options);
    case ReduceOp::min:
      return largest(terms, -1, options);
    case ReduceOp::logsumexp:
      return logsumexp(terms);
    case ReduceOp::moments_var:
      return variance(terms);
    case ReduceOp::argmax:
      return argmax(terms, options);
  }
  return {};
}

struct BoundedInteger {
  int64_t value;
  double error;
};

BoundedInteger reduce_integers(ReduceOp op, const std::vector<Term<int64_t>>& terms) {
  if (op == ReduceOp::argmax) {
    const Bounded y = argmax(terms, {});
    return {static_cast<int64_t>(y.value), y.error};
  }
  uint64_t total = 0;
  double error = 0, largest_error = 0;
  int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min();
  for (const auto& t : terms) {
    total += static_cast<uint64_t>(t.value);
    error += t.error;
    largest_error = std::max(largest_error, t.error);
    low = std::min(low, t.value), high = std::max(high, t.value);
  }
  if (op == ReduceOp::sum) return {static_cast<int64_t>(total), error};
  return {op == ReduceOp::max ? high : low, largest_error};
}

/// Which columns of the argument make up each column of the result.
std::vector<std::vector<int64_t>> column_lists(int64_t columns, const Columns& kept, bool same,
                                               std::span<const int64_t> symbols) {
  if (kept.kind == Kind::none) {
    std::vector<int64_t> all(columns);
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  const bool by_size = !same && (kept.kind == Kind::group || kept.kind == Kind::repeat);
  const int64_t size = by_size ? ir::evaluate(kept.size, symbols, "a reduction") : 1;
  const bool group = by_size && kept.kind == Kind::group;
  std::vector<std::vector<int64_t>> lists(by_size ? (group ? columns / size : size) : columns);
  for (int64_t c = 0; c < columns; ++c)
    lists[!by_size ? c : group ? c / size : c % size].push_back(c);
  return lists;
}

}  // namespace

Dense reduce(const ir::Reduce& node, const Dense& argument, const ir::Dims& from, bool integers,
             std::span<const int64_t> symbols, const Options& options) {
  extent(node.kept, symbols);  // refuses groups that do not divide
  const Columns &kept = node.kept.columns, &have = from.columns;
  ir::Dims dims = from;
  if (have.kind != Kind::none && kept.kind != Kind::none && !(kept == have))
    dims.columns = {Kind::all, have.width, ir::Size{}};  // groups of other columns: by full columns
  const Dense x = broadcast(argument, from, dims, symbols);
  const bool has_columns = dims.columns.kind != Kind::none;
  const bool keeps_rows = dims.rows && node.kept.rows;
  const auto lists =
      column_lists(x.columns, has_columns ? kept : Columns{}, kept == dims.columns, symbols);
  const int64_t width = static_cast<int64_t>(lists.size());
  const bool over_columns = has_columns && !(kept == dims.columns) && kept.kind != Kind::all;
  const bool over_rows = dims.rows && !keeps_rows;
  const auto index = [&](int64_t r, int64_t c) {
    return over_rows ? (over_columns ? r * x.columns + c : r) : c;
  };

  const bool exact_op = node.op == ReduceOp::sum || node.op == ReduceOp::max ||
                        node.op == ReduceOp::min || node.op == ReduceOp::argmax;
  const Dense reals = integers && !exact_op ? to_real(x, options.mode) : Dense{};
  const Dense& source = integers && !exact_op ? reals : x;

  const int64_t result_rows = keeps_rows ? x.rows : 1;
  const bool integer_result = node.op == ReduceOp::argmax || (integers && exact_op);
  Dense result = make({result_rows, width}, integer_result);
  result.error.resize(static_cast<size_t>(result.size()));
  const auto collect = [&](auto& terms, const auto& values, int64_t row, const auto& list) {
    terms.clear();
    const int64_t begin = keeps_rows ? row : 0, end = keeps_rows ? row + 1 : x.rows;
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c : list) {
        const size_t at = static_cast<size_t>(r * x.columns + c);
        terms.push_back({values[at], error_at(source, at), index(r, c)});
      }
  };
  Terms terms;
  std::vector<Term<int64_t>> integer_terms;
  for (int64_t r = 0; r < result_rows; ++r)
    for (int64_t c = 0; c < width; ++c) {
      const size_t at = static_cast<size_t>(r * width + c);
      if (integers && exact_op) {
        collect(integer_terms, source.integer, r, lists[c]);
        const BoundedInteger y = reduce_integers(node.op, integer_terms);
        result.integer[at] = y.value, result.error[at] = y.error;
        continue;
      }
      collect(terms, source.value, r, lists[c]);
      const Bounded y = reduce_reals(node.op, terms, options);
      if (integer_result)
        result.integer[at] = static_cast<int64_t>(y.value);
      else
        result.value[at] = y.value;
      result.error[at] = options.mode == Mode::exact ? 0 : y.error;
    }
  trim(result);
  ir::Dims reduced = node.kept;
  reduced.rows = keeps_rows;
  if (!has_columns) reduced.columns = {};
  return broadcast(result, reduced, node.kept, symbols);
}

}  // namespace coda::reference

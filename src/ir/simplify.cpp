// SPDX-License-Identifier: Apache-2.0
#include "ir/simplify.h"

#include <cmath>
#include <optional>

namespace coda::ir {
namespace {

using Kind = Columns::Kind;

/// 0 for a number, 1 for one value per row, column or group, 2 for a value of each element.
int weight(const Dims& dims) {
  return dims.rows && dims.columns.kind != Kind::none ? 2 : dims.is_scalar() ? 0 : 1;
}

class Simplifier {
 public:
  explicit Simplifier(const Program& program)
      : source_(program), builder_(program.name), consing_(builder_) {}

  Program run() {
    if (source_.graph) builder_.make_graph();
    for (size_t i = kFirstParameter; i < source_.symbols.size(); ++i)
      builder_.size_parameter(source_.symbols[i]);
    for (const Input& input : source_.inputs) builder_.input(input);
    std::vector<Value> map(source_.nodes.size());
    for (ValueId i : live_nodes(source_)) {
      const Node node = with_operands(source_.nodes[i], [&](ValueId id) { return map[id].id(); });
      map[i] = emit(node);
      if (!source_.names[i].empty() && !constant(map[i])) builder_.name(map[i], source_.names[i]);
    }
    for (Output output : source_.outputs) {
      output.value = map[output.value].id();
      builder_.output(std::move(output));
    }
    return builder_.finish();
  }

 private:
  const Node& node_of(Value v) const { return builder_.program().nodes[v.id()]; }
  const ValueInfo& info_of(Value v) const { return builder_.program().info[v.id()]; }
  Value value(ValueId id) { return {&builder_, id}; }
  Value make(Op op, Value a, Value b = {}) {
    return emit(Elementwise{op, {a.id(), b.is_number() ? -1 : b.id(), -1}});
  }
  Value real(double x) { return consing_.node(RealConstant{x}); }

  std::optional<double> constant(Value v) const {
    if (const auto* real = std::get_if<RealConstant>(&node_of(v))) return real->value;
    if (const auto* integer = std::get_if<IntegerConstant>(&node_of(v)))
      return static_cast<double>(integer->value);
    return std::nullopt;
  }
  bool is(Value v, double x) const { return constant(v) == x; }
  const Elementwise* match(Value v, Op op) const {
    const auto* node = std::get_if<Elementwise>(&node_of(v));
    return node && node->op == op ? node : nullptr;
  }
  int weight_of(Value v) const { return weight(info_of(v).dims); }
  bool real_valued(Value v) const { return info_of(v).number == Number::real; }

  Value emit(const Node& node) {
    std::optional<Value> better;
    if (const auto* n = std::get_if<Elementwise>(&node)) better = rewrite(*n);
    if (const auto* n = std::get_if<Reduce>(&node)) better = rewrite(*n);
    if (!better) return consing_.node(node);
    return *better;
  }

  /// A rule may replace a value only by one of the same number class and dims.
  std::optional<Value> same(Value replacement, const Elementwise& n) {
    const ValueInfo wanted = infer(builder_.program(), n);
    if (info_of(replacement).number != wanted.number || !(info_of(replacement).dims == wanted.dims))
      return std::nullopt;
    return replacement;
  }

  std::optional<Value> rewrite(const Elementwise& n) {
    const Value a = value(n.args[0]);
    const Value b = info(n.op).arity > 1 ? value(n.args[1]) : Value{};
    const auto pair = info(n.op).arity == 2;
    if (pair && constant(a) && constant(b) && real_valued(a) && real_valued(b)) {
      const double x = *constant(a), y = *constant(b);
      if (n.op == Op::add) return real(x + y);
      if (n.op == Op::sub) return real(x - y);
      if (n.op == Op::mul) return real(x * y);
    }
    switch (n.op) {
      case Op::add:
        return rewrite_add(n, a, b);
      case Op::sub:
        if (is(b, 0)) return same(a, n);
        if (const auto* m = match(b, Op::neg)) return make(Op::add, a, value(m->args[0]));
        if (is(a, 0) && real_valued(b)) return same(make(Op::neg, b), n);
        return std::nullopt;
      case Op::mul:
        return rewrite_mul(n, a, b);
      case Op::div:
        if (is(b, 1)) return same(a, n);
        if (const auto* m = match(a, Op::neg))
          return make(Op::neg, make(Op::div, value(m->args[0]), b));
        return std::nullopt;
      case Op::neg:
        if (const auto* m = match(a, Op::neg)) return same(value(m->args[0]), n);
        if (constant(a) && real_valued(a)) return real(-*constant(a));
        if (const auto* m = match(a, Op::sub))
          return same(make(Op::sub, value(m->args[1]), value(m->args[0])), n);
        return std::nullopt;
      case Op::where:
        if (n.args[1] == n.args[2]) return same(b, n);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  std::optional<Value> rewrite_add(const Elementwise& n, Value a, Value b) {
    if (is(b, 0)) return same(a, n);
    if (is(a, 0)) return same(b, n);
    if (a.id() == b.id() && real_valued(a)) return make(Op::mul, real(2), a);
    if (const auto* m = match(b, Op::neg)) return make(Op::sub, a, value(m->args[0]));
    if (const auto* m = match(a, Op::neg)) return make(Op::sub, b, value(m->args[0]));
    if (auto joined = add_joins(a, b)) return joined;
    if (auto selected = add_selects(n, a, b)) return selected;
    if (auto factored = add_products(a, b)) return factored;
    // The same against one summand of a sum: (p + q) + b.
    if (const auto* m = match(a, Op::add)) {
      const Value p = value(m->args[0]), q = value(m->args[1]);
      if (q.id() == b.id() && real_valued(b)) return make(Op::add, p, make(Op::mul, real(2), b));
      if (auto joined = add_joins(q, b)) return make(Op::add, p, *joined);
      if (auto joined = add_joins(p, b)) return make(Op::add, *joined, q);
    }
    return std::nullopt;
  }

  /// c * x + c * y = c * (x + y) and x / c + y / c = (x + y) / c, where c is lighter than both.
  std::optional<Value> add_products(Value a, Value b) {
    for (const Op op : {Op::mul, Op::div}) {
      const auto *first = match(a, op), *second = match(b, op);
      if (!first || !second) continue;
      for (int i = op == Op::div ? 1 : 0; i < 2; ++i)
        for (int j = op == Op::div ? 1 : 0; j < 2; ++j) {
          const Value x = value(first->args[1 - i]), y = value(second->args[1 - j]);
          const Value c = value(first->args[i]);
          const bool lighter = weight_of(c) < weight_of(x) && weight_of(c) < weight_of(y);
          if (first->args[i] != second->args[j] || !lighter || !real_valued(x) || !real_valued(y))
            continue;
          const Value sum = make(Op::add, x, y);
          return op == Op::mul ? make(op, c, sum) : make(op, sum, c);
        }
    }
    return std::nullopt;
  }

  /// join(x, 0) + join(0, y) = join(x, y).
  std::optional<Value> add_joins(Value a, Value b) {
    const auto *first = std::get_if<Join>(&node_of(a)), *second = std::get_if<Join>(&node_of(b));
    if (!first || !second || !(first->half == second->half)) return std::nullopt;
    if (is(value(first->a), 0) && is(value(second->b), 0)) std::swap(first, second);
    if (!is(value(first->b), 0) || !is(value(second->a), 0)) return std::nullopt;
    return consing_.node(Join{first->a, second->b, first->half});
  }

  /// where(c, x, 0) + where(c, 0, y) = where(c, x, y).
  std::optional<Value> add_selects(const Elementwise& n, Value a, Value b) {
    const auto *first = match(a, Op::where), *second = match(b, Op::where);
    if (!first || !second || first->args[0] != second->args[0]) return std::nullopt;
    if (is(value(first->args[1]), 0) && is(value(second->args[2]), 0)) std::swap(first, second);
    if (!is(value(first->args[2]), 0) || !is(value(second->args[1]), 0)) return std::nullopt;
    return same(emit(Elementwise{Op::where, {first->args[0], first->args[1], second->args[2]}}), n);
  }

  std::optional<Value> rewrite_mul(const Elementwise& n, Value a, Value b) {
    if (is(b, 1)) return same(a, n);
    if (is(a, 1)) return same(b, n);
    if (is(b, -1) && real_valued(b)) return same(make(Op::neg, a), n);
    if (is(a, -1) && real_valued(a)) return same(make(Op::neg, b), n);
    if (const auto* m = match(a, Op::neg))
      return make(Op::neg, make(Op::mul, value(m->args[0]), b));
    if (const auto* m = match(b, Op::neg))
      return make(Op::neg, make(Op::mul, a, value(m->args[0])));
    if (!real_valued(a) || !real_valued(b)) return std::nullopt;
    // Small factors meet each other first: c * (d * x) is (c * d) * x where c and d are lighter
    // than x.
    if (weight_of(a) > weight_of(b)) std::swap(a, b);
    if (const auto* m = match(b, Op::mul)) {
      Value light = value(m->args[0]), heavy = value(m->args[1]);
      if (weight_of(light) > weight_of(heavy)) std::swap(light, heavy);
      if (real_valued(light) && real_valued(heavy) && weight_of(light) < weight_of(heavy) &&
          weight_of(a) < weight_of(heavy))
        return make(Op::mul, make(Op::mul, a, light), heavy);
    }
    return std::nullopt;
  }

  /// sum(c * x) = c * sum(x) where c does not vary over what is reduced: one product per result
  /// instead of one per element. The same for mean, for quotients and for the sign.
  std::optional<Value> rewrite(const Reduce& n) {
    if (n.op != ReduceOp::sum && n.op != ReduceOp::mean) return std::nullopt;
    const Value arg = value(n.arg);
    if (!real_valued(arg)) return std::nullopt;
    const auto reduced = [&](Value inner) { return emit(Reduce{n.op, n.kept, inner.id()}); };
    if (const auto* m = match(arg, Op::neg)) return make(Op::neg, reduced(value(m->args[0])));
    if (const auto* m = match(arg, Op::div)) {
      const Value top = value(m->args[0]), bottom = value(m->args[1]);
      if (kept_factor(bottom, n.kept) && still_reduces(top, arg, n.kept))
        return make(Op::div, reduced(top), bottom);
    }
    if (const auto* m = match(arg, Op::mul)) {
      for (int i = 0; i < 2; ++i) {
        const Value factor = value(m->args[i]), rest = value(m->args[1 - i]);
        if (kept_factor(factor, n.kept) && still_reduces(rest, arg, n.kept))
          return make(Op::mul, factor, reduced(rest));
      }
    }
    return std::nullopt;
  }

  /// Whether `factor` is constant over the elements that make one result.
  bool kept_factor(Value factor, const Dims& kept) const {
    const Dims& dims = info_of(factor).dims;
    if (weight(dims) == 2 && !(dims == kept)) return false;
    const bool columns_fit = dims.columns.kind == Kind::none || dims.columns == kept.columns;
    return (!dims.rows || kept.rows) && columns_fit;
  }

  /// Whether `rest` runs over the same elements as the whole argument.
  bool still_reduces(Value rest, Value whole, const Dims&) const {
    return real_valued(rest) && info_of(rest).dims == info_of(whole).dims;
  }

  const Program& source_;
  Builder builder_;
  Consing consing_;
};

}  // namespace

Program simplify(const Program& program) { return eliminate(Simplifier(program).run()); }

}  // namespace coda::ir

// SPDX-License-Identifier: Apache-2.0
// Pass 2, defer: a factor per token on the operand of a product moves behind it.
//
// (r x) W = r (x W) for one r per row, so RMSNorm's scale, which is known only after the whole row,
// is applied to the product's result instead, where it is known in time. Scales alone are deferred:
// a LayerNorm's mean would cancel against the product and lose digits, so its value stays the
// operand, made by a pass of its own. The factor is also pulled out of sums, r a + r b = r (a + b),
// so that the next pass sees sums of products, and a constant factor of a product goes to its
// operand (the scale of LoRA). It runs before differentiation, which makes the gradient of the
// deferred form: the row sum that RMSNorm's gradient needs then comes from values that are stored
// anyway.
#include <map>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::Columns;
using ir::Elementwise;
using ir::Op;
using ir::ValueId;

class Deferral {
 public:
  /// `uses` counts readers of the new graph's products.
  Deferral(Rebuild& to, std::map<ValueId, int>& uses) : to_(to), uses_(uses) {}

  Value rewrite(const ir::Node& node, int uses) {
    const std::optional<Value> value = rewrite(node);
    const Value result = value ? *value : to_.emit(node);
    if (const auto split = row_scaled(result.id())) uses_[split->rest] += uses;
    uses_[result.id()] += uses;
    return result;
  }

 private:
  std::optional<Value> rewrite(const ir::Node& node) {
    if (const auto* product = ir::whole<ir::Product>(node))
      return rewrite_product(*product, ir::operands(node));
    const auto* n = std::get_if<Elementwise>(&node);
    if (n && n->op == Op::mul) return rewrite_mul(n->args[0], n->args[1]);
    if (n && n->op == Op::add) return rewrite_add(n->args[0], n->args[1]);
    return std::nullopt;
  }

  bool per_token(ValueId id) const {
    return to_.info(id).dims == ir::Dims{true, {}} && to_.info(id).number == ir::Number::real;
  }
  bool matrix(ValueId id) const {
    const ir::Dims& dims = to_.info(id).dims;
    return dims.rows && dims.columns.kind == Columns::Kind::all;
  }
  bool constant(ValueId id) const {
    return std::holds_alternative<ir::RealConstant>(to_.node(id)) ||
           std::holds_alternative<ir::IntegerConstant>(to_.node(id));
  }

  struct Scaled {
    ValueId rest, factor;
  };
  /// x and r of x * r, where x is a matrix and `fits` holds for r.
  template <class Fits>
  std::optional<Scaled> scaled(ValueId id, const Fits& fits) const {
    const auto* n = std::get_if<Elementwise>(&to_.node(id));
    if (!n || n->op != Op::mul) return std::nullopt;
    for (int i = 0; i < 2; ++i)
      if (fits(n->args[i]) && matrix(n->args[1 - i])) return Scaled{n->args[1 - i], n->args[i]};
    return std::nullopt;
  }
  std::optional<Scaled> row_scaled(ValueId id) const {
    return scaled(id, [this](ValueId factor) { return per_token(factor); });
  }

  std::optional<Value> rewrite_product(const ir::Product& product, std::vector<ValueId> args) {
    std::optional<ValueId> factor;
    const size_t each = static_cast<size_t>(product.segments) + 1;
    for (size_t a = 0; a < args.size(); a += each) {
      const auto split = row_scaled(args[a]);
      if (!split || (factor && *factor != split->factor)) return std::nullopt;
      factor = split->factor;
      args[a] = split->rest;
    }
    if (!factor) return std::nullopt;
    const Value result = to_.emit(ir::Whole{product, args});
    return to_.value(result.id()) * to_.value(*factor);
  }

  std::optional<Value> rewrite_mul(ValueId a, ValueId b) {
    for (int i = 0; i < 2; ++i, std::swap(a, b)) {
      if (!constant(a) || !matrix(b)) continue;
      if (const auto split = row_scaled(b)) {
        const auto inner = rewrite_mul(a, split->rest);
        return (inner ? *inner : to_.value(a) * to_.value(split->rest)) * to_.value(split->factor);
      }
      const auto* product = ir::whole<ir::Product>(to_.node(b));
      std::vector<ValueId> args = ir::operands(to_.node(b));
      if (product && args.size() == 2 && uses_[b] <= 1) {
        args[0] = (to_.value(a) * to_.value(args[0])).id();
        return to_.emit(ir::Whole{*product, args});
      }
    }
    return std::nullopt;
  }

  std::optional<Value> rewrite_add(ValueId a, ValueId b) {
    const auto first = row_scaled(a), second = row_scaled(b);
    if (!first || !second || first->factor != second->factor) return std::nullopt;
    return (to_.value(first->rest) + to_.value(second->rest)) * to_.value(first->factor);
  }

  Rebuild& to_;
  std::map<ValueId, int>& uses_;
};

}  // namespace

ir::Program defer(const ir::Program& graph) {
  const std::vector<int> counts = ir::use_counts(graph);
  std::map<ValueId, int> uses;
  return rebuild(graph, [&](Rebuild& to, const ir::Node& node, ValueId source) {
    return Deferral(to, uses).rewrite(node, counts[source]);
  });
}

}  // namespace coda::rewrite

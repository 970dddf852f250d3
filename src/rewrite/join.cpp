// SPDX-License-Identifier: Apache-2.0
// Pass 3, join: products become one where they can.
//
// A sum of products with separate operands, x A^T + y B^T, is one product with two terms (LoRA, or
// attention and MLP side by side). Products of one operand whose results lie side by side (queries,
// keys and values) are one product with a weight of several segments; the work on each part becomes
// work on the whole, with a choice by column where the parts differ. Products that meet elementwise
// (gate and up) are left apart: they become two accumulators of one region when the graph is cut.
// It runs before differentiation, so that gradients are joined as well.
#include <map>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::Columns;
using ir::Elementwise;
using ir::Op;
using ir::Size;
using ir::ValueId;
using ir::Whole;

int64_t width_of(const ir::ValueInfo& info) { return info.dims.columns.width.numerator; }

// --- sums of products

class Sums {
 public:
  Sums(Rebuild& to, const std::map<ValueId, int>& uses) : to_(to), uses_(uses) {}

  /// P + Q and (x + P) + Q, where nothing else reads P or Q.
  std::optional<Value> rewrite(const ir::Node& node) {
    const auto* add = std::get_if<Elementwise>(&node);
    if (!add || add->op != Op::add) return std::nullopt;
    ValueId a = add->args[0], b = add->args[1];
    if (!product(b)) std::swap(a, b);
    if (!product(b)) return std::nullopt;
    if (product(a)) return merge(a, b);
    const auto* inner = std::get_if<Elementwise>(&to_.node(a));
    if (!inner || inner->op != Op::add || !once(a)) return std::nullopt;
    for (int i = 0; i < 2; ++i)
      if (product(inner->args[i]))
        if (const auto merged = merge(inner->args[i], b))
          return to_.value(inner->args[1 - i]) + *merged;
    return std::nullopt;
  }

 private:
  bool once(ValueId id) const {
    const auto found = uses_.find(id);
    return found == uses_.end() || found->second == 1;
  }
  const ir::Product* product(ValueId id) const {
    return once(id) ? ir::whole<ir::Product>(to_.node(id)) : nullptr;
  }

  std::optional<Value> merge(ValueId a, ValueId b) {
    const ir::Product *first = product(a), *second = product(b);
    if (first->segments != 1 || second->segments != 1) return std::nullopt;
    std::vector<ValueId> args = ir::operands(to_.node(a));
    for (ValueId id : ir::operands(to_.node(b))) args.push_back(id);
    return to_.emit(Whole{ir::Product{1}, args});
  }

  Rebuild& to_;
  const std::map<ValueId, int>& uses_;
};

// --- products side by side

/// Makes one value over all columns from values side by side that are computed alike.
class Unify {
 public:
  explicit Unify(Rebuild& to) : to_(to) {}

  /// The value over the columns of all `parts`, or nothing where they cannot be made as one.
  std::optional<Value> run(const std::vector<ValueId>& parts) {
    std::vector<int64_t> widths;
    for (ValueId part : parts) widths.push_back(width_of(to_.info(part)));
    if (!find_operand(parts)) return std::nullopt;
    return unify(parts, widths);
  }

 private:
  using Parts = std::vector<ValueId>;
  using Widths = std::vector<int64_t>;

  /// The one operand of the products that the parts rest on.
  bool find_operand(const Parts& parts) {
    for (ValueId part : parts) {
      std::vector<ValueId> open{part};
      std::set<ValueId> seen;
      int products = 0;
      while (!open.empty()) {
        const ValueId id = open.back();
        open.pop_back();
        if (!seen.insert(id).second) continue;
        const ir::Node& node = to_.node(id);
        if (ir::whole<ir::Product>(node)) {
          const std::vector<ValueId> args = ir::operands(node);
          if (args.size() != 2 || (operand_ >= 0 && operand_ != args[0])) return false;
          operand_ = args[0], ++products;
        } else if (ir::whole<ir::Repeat>(node) || std::holds_alternative<ir::InputValue>(node) ||
                   !to_.info(id).dims.is_tile()) {
          continue;
        } else if (std::holds_alternative<Whole>(node)) {
          return false;
        } else {
          for (ValueId operand : ir::operands(node)) open.push_back(operand);
        }
      }
      if (products != 1) return false;
    }
    return true;
  }

  static int64_t sum(const Widths& widths) {
    int64_t result = 0;
    for (int64_t width : widths) result += width;
    return result;
  }

  std::optional<Value> unify(const Parts& parts, const Widths& widths) {
    const auto key = std::make_pair(parts, widths);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const std::optional<Value> made = make(parts, widths);
    known_.emplace(key, made);
    return made;
  }

  std::optional<Value> make(const Parts& parts, const Widths& widths) {
    const ir::Dims& dims = to_.info(parts[0]).dims;
    const bool same =
        std::all_of(parts.begin(), parts.end(), [&](ValueId id) { return id == parts[0]; });
    if (same && dims.columns.kind == Columns::Kind::none) return to_.value(parts[0]);
    if (alike(parts)) {
      if (const auto made = together(parts, widths)) return made;
      return std::nullopt;
    }
    return choose(parts, widths);
  }

  /// Whether all parts are made by one operation with the same attributes.
  bool alike(const Parts& parts) const {
    return std::all_of(parts.begin(), parts.end(), [&](ValueId id) { return alike(parts[0], id); });
  }

  bool alike(ValueId a, ValueId b) const {
    const ir::Node &x = to_.node(a), &y = to_.node(b);
    if (a == b) return true;
    if (x.index() != y.index()) return false;
    return std::visit(
        ir::Overloaded{[](const auto&) { return false; },
                       [&](const ir::InputValue&) {  // vectors lie side by side
                         return vector(a) && vector(b) && to_.info(a).number == to_.info(b).number;
                       },
                       [&](const Elementwise& n) { return n.op == std::get<Elementwise>(y).op; },
                       [&](const ir::Split& n) {
                         const auto& other = std::get<ir::Split>(y);
                         return n.half == other.half && n.part == other.part;
                       },
                       [&](const ir::Join& n) { return n.half == std::get<ir::Join>(y).half; },
                       [&](const ir::Swap& n) {
                         const auto& other = std::get<ir::Swap>(y);
                         return n.half == other.half && n.group == other.group;
                       },
                       [&](const ir::Reduce& n) {
                         const auto& other = std::get<ir::Reduce>(y);
                         return n.op == other.op && n.kept.columns.kind == Columns::Kind::group &&
                                n.kept.columns.kind == other.kept.columns.kind &&
                                n.kept.columns.size == other.kept.columns.size;
                       },
                       [&](const Whole& n) {
                         if (ir::whole<ir::Product>(x)) return ir::whole<ir::Product>(y) != nullptr;
                         return ir::whole<ir::Repeat>(x) && ir::whole<ir::Repeat>(y) &&
                                n.args[0] == std::get<Whole>(y).args[0];
                       }},
        x);
  }

  bool vector(ValueId id) const {
    const ir::Dims& dims = to_.info(id).dims;
    return !dims.rows && dims.columns.kind == Columns::Kind::all;
  }

  Parts operand(const Parts& parts, size_t i) const {
    Parts result;
    for (ValueId part : parts) result.push_back(ir::operands(to_.node(part))[i]);
    return result;
  }

  static Widths times(const Widths& widths, int64_t top, int64_t bottom) {
    Widths result;
    for (int64_t width : widths) result.push_back(width * top / bottom);
    return result;
  }

  /// One operation over all columns.
  std::optional<Value> together(const Parts& parts, const Widths& widths) {
    const ir::Node node = to_.node(parts[0]);  // a copy: nodes move as the graph grows
    if (std::holds_alternative<ir::InputValue>(node))
      return vector(parts[0]) ? std::optional(to_.emit(Whole{ir::Concat{}, parts})) : std::nullopt;
    if (const auto* w = std::get_if<Whole>(&node)) {
      if (std::holds_alternative<ir::Repeat>(w->op))
        return to_.emit(Whole{ir::Repeat{sum(widths)}, w->args});
      Parts args{operand_};
      for (ValueId part : parts) args.push_back(ir::operands(to_.node(part))[1]);
      return to_.emit(Whole{ir::Product{static_cast<int>(parts.size())}, args});
    }
    Widths inner = widths;
    if (std::holds_alternative<ir::Split>(node)) inner = times(widths, 2, 1);
    if (std::holds_alternative<ir::Join>(node)) inner = times(widths, 1, 2);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < ir::operands(node).size(); ++i) {
      const auto made = unify(operand(parts, i), inner);
      if (!made) return std::nullopt;
      operands.push_back(to_.builder().id(*made));
    }
    ir::Node result = node;
    if (auto* reduce = std::get_if<ir::Reduce>(&result))
      reduce->kept.columns.width = ir::constant_size(sum(widths));
    size_t next = 0;
    return to_.emit(ir::with_operands(result, [&](ValueId) { return operands[next++]; }));
  }

  /// A choice by column between runs of parts that are alike; each run is computed over all
  /// columns.
  std::optional<Value> choose(const Parts& parts, const Widths& widths) {
    std::vector<std::pair<size_t, size_t>> runs;
    for (size_t i = 0; i < parts.size();) {
      size_t end = i + 1;
      while (end < parts.size() && alike(parts[i], parts[end])) ++end;
      runs.emplace_back(i, end);
      i = end;
    }
    const int64_t total = sum(widths);
    std::optional<Value> result;
    for (size_t r = runs.size(); r-- > 0;) {
      const auto [begin, end] = runs[r];
      const auto value = whole_width(parts, widths, begin, end);
      if (!value) return std::nullopt;
      if (!result) {
        result = value;
        continue;
      }
      int64_t bound = 0;
      for (size_t i = 0; i < end; ++i) bound += widths[i];
      const Value column = to_.emit(ir::Index{false, ir::constant_size(total)});
      result = where(lt(column, bound), *value, *result);
    }
    return result;
  }

  /// The value of parts [begin, end), which are alike, as if all columns were made like them: the
  /// other parts stand in with their own innermost product.
  std::optional<Value> whole_width(const Parts& parts, const Widths& widths, size_t begin,
                                   size_t end) {
    if (begin == 0 && end == parts.size()) return unify(parts, widths);
    return extend(Parts(parts.begin() + static_cast<ptrdiff_t>(begin),
                        parts.begin() + static_cast<ptrdiff_t>(end)),
                  parts, widths, begin);
  }

  /// unify() of `own`, where a product is widened to that of all parts.
  std::optional<Value> extend(const Parts& own, const Parts& all, const Widths& widths,
                              size_t begin) {
    const ir::Node node = to_.node(own[0]);  // a copy: nodes move as the graph grows
    const ir::Dims& dims = to_.info(own[0]).dims;
    const bool same = std::all_of(own.begin(), own.end(), [&](ValueId id) { return id == own[0]; });
    if (same && dims.columns.kind == Columns::Kind::none) return to_.value(own[0]);
    const int64_t total = sum(widths);
    if (const auto* w = std::get_if<Whole>(&node)) {
      if (std::holds_alternative<ir::Repeat>(w->op)) {
        const bool one =
            std::all_of(own.begin(), own.end(), [&](ValueId id) { return alike(own[0], id); });
        if (one) return to_.emit(Whole{ir::Repeat{total}, w->args});
        return select(own, all, widths, begin);
      }
      return product_of(all);
    }
    const bool one =
        std::all_of(own.begin(), own.end(), [&](ValueId id) { return alike(own[0], id); });
    if (!one) return select(own, all, widths, begin);
    if (std::holds_alternative<ir::InputValue>(node) || std::holds_alternative<ir::Index>(node))
      return std::nullopt;
    if (const auto parts = counterparts(own[0], all)) return unify(*parts, widths);
    Widths inner = widths;
    if (std::holds_alternative<ir::Split>(node)) inner = times(widths, 2, 1);
    if (std::holds_alternative<ir::Join>(node)) inner = times(widths, 1, 2);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < ir::operands(node).size(); ++i) {
      const auto made = extend(operand(own, i), all, inner, begin);
      if (!made) return std::nullopt;
      operands.push_back(to_.builder().id(*made));
    }
    ir::Node result = node;
    if (auto* reduce = std::get_if<ir::Reduce>(&result))
      reduce->kept.columns.width = ir::constant_size(total);
    size_t next = 0;
    return to_.emit(ir::with_operands(result, [&](ValueId) { return operands[next++]; }));
  }

  /// A value of each part that is made as `id` is from its product on, such as a sum with a bias.
  std::optional<Parts> counterparts(ValueId id, const Parts& all) const {
    Parts result;
    for (ValueId part : all) {
      std::vector<ValueId> open{part};
      ValueId found = -1;
      while (!open.empty() && found < 0) {
        const ValueId at = open.back();
        open.pop_back();
        if (!to_.info(at).dims.is_tile()) continue;
        if (made_alike(id, at)) found = at;
        if (!std::holds_alternative<Whole>(to_.node(at)))
          for (ValueId operand : ir::operands(to_.node(at))) open.push_back(operand);
      }
      if (found < 0) return std::nullopt;
      result.push_back(found);
    }
    return result;
  }

  bool made_alike(ValueId a, ValueId b) const {
    if (a == b || (alike(a, b) && ir::whole<ir::Product>(to_.node(a)))) return true;
    if (!alike(a, b)) return false;
    const std::vector<ValueId> x = ir::operands(to_.node(a)), y = ir::operands(to_.node(b));
    for (size_t i = 0; i < x.size(); ++i)
      if (!made_alike(x[i], y[i])) return false;
    return true;
  }

  /// A choice by column among `own`, the last of which stands for all columns behind it.
  std::optional<Value> select(const Parts& own, const Parts& all, const Widths& widths,
                              size_t begin) {
    std::optional<Value> result;
    for (size_t i = own.size(); i-- > 0;) {
      const auto value = extend({own[i]}, all, widths, begin + i);
      if (!value) return std::nullopt;
      if (result) {
        int64_t bound = 0;
        for (size_t j = 0; j <= begin + i; ++j) bound += widths[j];
        const Value column = to_.emit(ir::Index{false, ir::constant_size(sum(widths))});
        result = where(lt(column, bound), *value, *result);
      } else {
        result = value;
      }
    }
    return result;
  }

  /// The product of all parts; every part rests on exactly one.
  std::optional<Value> product_of(const Parts& parts) {
    Parts args{operand_};
    for (ValueId part : parts) {
      ValueId weight = -1;
      std::vector<ValueId> open{part};
      while (weight < 0) {
        const ValueId id = open.back();
        open.pop_back();
        if (ir::whole<ir::Product>(to_.node(id))) {
          weight = ir::operands(to_.node(id))[1];
        } else if (!ir::whole<ir::Repeat>(to_.node(id))) {
          for (ValueId operand : ir::operands(to_.node(id)))
            if (to_.info(operand).dims.is_tile()) open.push_back(operand);
        }
      }
      args.push_back(weight);
    }
    return to_.emit(Whole{ir::Product{static_cast<int>(parts.size())}, args});
  }

  Rebuild& to_;
  ValueId operand_ = -1;
  std::map<std::pair<Parts, Widths>, std::optional<Value>> known_;
};

}  // namespace

ir::Program join(const ir::Program& graph) {
  const std::vector<int> counts = ir::use_counts(graph);
  std::map<ValueId, int> uses;
  const ir::Program sums = rebuild(graph, [&](Rebuild& to, const ir::Node& node, ValueId source) {
    std::optional<Value> value = Sums(to, uses).rewrite(node);
    if (!value) value = to.emit(node);
    uses[value->id()] += counts[source];
    return value;
  });
  return rebuild(sums, [](Rebuild& to, const ir::Node& node, ValueId) -> std::optional<Value> {
    if (!ir::whole<ir::Concat>(node)) return std::nullopt;
    const std::vector<ValueId> parts = ir::operands(node);
    if (!to.info(parts[0]).dims.rows) return std::nullopt;
    return Unify(to).run(parts);
  });
}

}  // namespace coda::rewrite

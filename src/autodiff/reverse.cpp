// SPDX-License-Identifier: Apache-2.0
#include "autodiff/reverse.h"

#include <coda/error.h>

#include <algorithm>

#include "autodiff/extents.h"
#include "autodiff/linear.h"
#include "autodiff/rules.h"
#include "ir/simplify.h"

namespace coda::autodiff {
namespace {

using ir::Columns;
using ir::Dims;
using ir::Number;
using ir::Overloaded;
using ir::Program;
using ir::ReduceOp;
using ir::Stage;
using ir::ValueId;
using Kind = Columns::Kind;

[[noreturn]] void refuse(std::string_view where, std::string_view expected, std::string_view got,
                         std::string_view fix) {
  throw Error(ErrorKind::program, where, expected, got, fix);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// One summand of an adjoint. A summand within the value's dims is one number per element and may
/// be added to others; one with more dims still has to be summed over them, so it stays apart from
/// other dims.
struct Term {
  Dims dims;
  Value value;
};

class Walk {
 public:
  Walk(const Program& program, const Options& options)
      : forward_(program), options_(options), builder_(program.name + "_bwd") {
    if (program.graph) builder_.make_graph();
  }

  Reverse run() {
    add_helpers();
    check_names();
    find_active();
    const size_t count = forward_.nodes.size();
    terms_.resize(count), outer_terms_.resize(count);
    for (size_t i = ir::kFirstParameter; i < forward_.symbols.size(); ++i)
      builder_.size_parameter(forward_.symbols[i]);
    seed();
    for (size_t i = count; i-- > 0;) {
      add_homogeneous(static_cast<ValueId>(i));
      if (!terms_[i].empty()) propagate(static_cast<ValueId>(i));
    }
    for (size_t i = 0; i < forward_.inputs.size(); ++i) emit_gradient(static_cast<int>(i));
    if (builder_.program().outputs.empty())
      refuse("differentiate '" + forward_.name + "'", "an input that the outputs depend on", "none",
             "name others with wrt and of");
    return {forward_, builder_.finish(), placeholders_};
  }

 private:
  // --- preparation
  // -----------------------------------------------------------------------------------

  ValueId append(ir::Node node) {
    if (const auto* attention = ir::whole<ir::Attention>(node))
      for (size_t i = 0; i < forward_.nodes.size(); ++i)
        if (const auto* other = ir::whole<ir::Attention>(forward_.nodes[i]))
          if (*other == *attention && ir::operands(forward_.nodes[i]) == ir::operands(node))
            return static_cast<ValueId>(i);
    if (const auto* reduce = std::get_if<ir::Reduce>(&node))
      for (size_t i = 0; i < forward_.nodes.size(); ++i)
        if (const auto* other = std::get_if<ir::Reduce>(&forward_.nodes[i]))
          if (other->op == reduce->op && other->kept == reduce->kept && other->arg == reduce->arg)
            return static_cast<ValueId>(i);
    forward_.info.push_back(ir::infer(forward_, node));
    forward_.nodes.push_back(std::move(node));
    forward_.names.emplace_back();
    return static_cast<ValueId>(forward_.nodes.size()) - 1;
  }

  /// Derivatives of a complete max refer to where it was found, of a variance to the mean, of
  /// attention to the log-sum-exp of its scores.
  void add_helpers() {
    const size_t count = forward_.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      if (const auto* attention = ir::whole<ir::Attention>(forward_.nodes[i]))
        helper_[i] =
            append(ir::Whole{ir::Attention{attention->shape, 1}, ir::operands(forward_.nodes[i])});
      const auto* node = std::get_if<ir::Reduce>(&forward_.nodes[i]);
      if (!node) continue;
      const ir::Reduce reduce = *node;
      const bool extremum = reduce.op == ReduceOp::max || reduce.op == ReduceOp::min;
      if (extremum && forward_.info[i].stage == Stage::complete &&
          forward_.info[i].number == Number::real) {
        ValueId arg = reduce.arg;
        if (reduce.op == ReduceOp::min) arg = append(ir::Elementwise{ir::Op::neg, {arg, -1, -1}});
        helper_[i] = append(ir::Reduce{ReduceOp::argmax, reduce.kept, arg});
      } else if (reduce.op == ReduceOp::moments_var) {
        helper_[i] = append(ir::Reduce{ReduceOp::moments_mean, reduce.kept, reduce.arg});
      }
    }
  }

  void check_names() {
    for (const std::string& name : options_.wrt)
      if (std::none_of(forward_.inputs.begin(), forward_.inputs.end(), [&](const ir::Input& input) {
            return input.name == name && differentiable(input);
          }))
        refuse("differentiate '" + forward_.name + "'", "wrt to name accumulators or float tensors",
               "'" + name + "'", "see the inputs before ->");
    for (const std::string& name : options_.of)
      if (std::none_of(
              forward_.outputs.begin(), forward_.outputs.end(), [&](const ir::Output& output) {
                return output.name == name && forward_.info[output.value].number == Number::real;
              }))
        refuse("differentiate '" + forward_.name + "'", "of to name float outputs",
               "'" + name + "'", "see the outputs after ->");
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      const ir::Input& input = forward_.inputs[i];
      const bool column = input.kind == ir::Input::Kind::tensor && input.dims.rows &&
                          input.dims.columns.kind == Kind::none;
      if (column && contains(options_.nonzero, input.name) && wanted(static_cast<int>(i)))
        for (size_t node = 0; node < forward_.nodes.size(); ++node)
          if (const auto* value = std::get_if<ir::InputValue>(&forward_.nodes[node]))
            if (value->input == static_cast<int>(i))
              linears_.push_back(linear_in(forward_, static_cast<ValueId>(node)));
    }
    if (forward_.graph) find_row_factors();
  }

  /// In a graph the factors per token that cannot be 0 (rstd) are seen where they are made.
  void find_row_factors() {
    for (size_t i = 0; i < forward_.nodes.size(); ++i) {
      const auto* node = std::get_if<ir::Elementwise>(&forward_.nodes[i]);
      if (!node || !(forward_.info[i].dims == Dims{true, {}})) continue;
      if (node->op == ir::Op::rsqrt || node->op == ir::Op::exp || node->op == ir::Op::sigmoid)
        linears_.push_back(linear_in(forward_, static_cast<ValueId>(i)));
    }
  }

  static bool differentiable(const ir::Input& input) {
    return input.kind == ir::Input::Kind::accumulator || input.kind == ir::Input::Kind::weight ||
           (input.kind == ir::Input::Kind::tensor &&
            (input.type.generic || is_float(input.type.dtype)));
  }

  /// By default everything but repeating tables (frequencies), which get a gradient when named.
  bool wanted(int index) const {
    const ir::Input& input = forward_.inputs[index];
    if (!options_.wrt.empty()) return contains(options_.wrt, input.name);
    return differentiable(input) && input.dims.columns.kind != Kind::repeat;
  }

  void find_active() {
    active_.assign(forward_.nodes.size(), false);
    for (size_t i = 0; i < forward_.nodes.size(); ++i) {
      if (forward_.info[i].number != Number::real) continue;
      if (const auto* input = std::get_if<ir::InputValue>(&forward_.nodes[i]))
        active_[i] = wanted(input->input);
      for (ValueId id : ir::operands(forward_.nodes[i])) active_[i] = active_[i] || active_[id];
    }
  }

  void seed() {
    for (const ir::Output& output : forward_.outputs) {
      if (!active_[output.value] || (!options_.of.empty() && !contains(options_.of, output.name)))
        continue;
      ir::ElementType type = output.type;
      if (!type.generic && size_of(type.dtype) == 1) type.generic = true;  // fp8 has no gradients
      const Value d =
          builder_.input({"d_" + output.name, ir::Input::Kind::tensor, type, output.dims});
      contribute(output.value, d, output.dims, -1);
    }
  }

  // --- the walk
  // --------------------------------------------------------------------------------------

  const Dims& dims_of(Value v) const { return builder_.program().info[v.id()].dims; }
  bool has_columns(Value v) const { return dims_of(v).columns.kind != Kind::none; }

  /// The forward value `id` in the backward program.
  Value primal(ValueId id) {
    const auto found = primals_.find(id);
    if (found != primals_.end()) return found->second;
    const ir::Node& node = forward_.nodes[id];
    Value value;
    if (std::holds_alternative<ir::RealConstant>(node) ||
        std::holds_alternative<ir::IntegerConstant>(node) ||
        std::holds_alternative<ir::SizeParameter>(node) ||
        std::holds_alternative<ir::Index>(node)) {
      value = builder_.node(node);
    } else {
      const bool real = forward_.info[id].number == Number::real;
      const int64_t weight_rows = forward_.info[id].weight_rows;
      placeholders_[static_cast<int>(builder_.program().inputs.size())] = id;
      value = builder_.input({"%" + std::to_string(id),
                              weight_rows ? ir::Input::Kind::weight : ir::Input::Kind::tensor,
                              {false, real ? DType::f32 : DType::i64},
                              forward_.info[id].dims,
                              weight_rows});
    }
    return primals_.emplace(id, value).first->second;
  }

  /// Adds `d`, a summand of the adjoint of forward value `id` found at a user that runs over `user`
  /// dims. Elements that the user repeats while d does not vary over them are counted here.
  void contribute(ValueId id, Value d, const Dims& user, ValueId from) {
    const Dims &own = forward_.info[id].dims, have = d.is_number() ? Dims{} : dims_of(d);
    ir::Size factor = ir::constant_size(1);
    if (user.rows && !have.rows && !own.rows) factor = factor * ir::symbol_size(ir::kSymbolM);
    const Columns &u = user.columns, &h = have.columns, &o = own.columns;
    if (within({false, h}, {false, u})) {
      if (o.kind == Kind::none)
        factor = factor * column_count(u) / column_count(h);
      else if (h.kind == Kind::none || h == o)
        factor = factor * column_count(u) / column_count(o);
    }
    if (!(factor == ir::constant_size(1))) d = d * size_value(builder_, factor);
    if (d.is_number()) d = Value(&builder_, builder_.id(d));
    add_term(terms_[id], d, own);
    for (const Linear& linear : linears_)
      if (linear.nodes.count(id) && !linear.nodes.count(from)) {
        if (id == linear.source || !linear.frontier.count(id)) continue;
        add_term(outer_terms_[id], d, own);
        break;
      }
  }

  void add_term(std::vector<Term>& terms, Value d, const Dims& own) {
    const Dims dims = within(dims_of(d), own) ? own : dims_of(d);
    for (Term& term : terms)
      if (term.dims == dims) {
        term.value = term.value + d;
        return;
      }
    terms.push_back({dims, d});
  }

  void propagate(ValueId id) {
    const std::function<Value(int)> get = [this](int i) { return primal(i); };
    for (const Term& term : std::vector<Term>(terms_[id])) {
      const Value g = term.value;
      std::visit(
          Overloaded{[](const auto&) {},
                     [&](const ir::Elementwise& n) {
                       for (int i = 0; i < ir::info(n.op).arity; ++i) {
                         if (!active_[n.args[i]] || skip(id, n.args[i])) continue;
                         const auto d = derivative(n.op, i, {get, n.args[0]}, {get, n.args[1]},
                                                   {get, n.args[2]}, {get, id}, g);
                         if (d) contribute(n.args[i], *d, forward_.info[id].dims, id);
                       }
                     },
                     [&](const ir::Round& n) {
                       if (active_[n.arg]) contribute(n.arg, g, forward_.info[id].dims, id);
                     },
                     [&](const ir::Split& n) { propagate_split(n, id, g); },
                     [&](const ir::Join& n) { propagate_join(n, id, g); },
                     [&](const ir::Swap& n) {
                       if (!active_[n.arg]) return;
                       const Value d =
                           has_columns(g) ? builder_.node(ir::Swap{g.id(), n.half, n.group}) : g;
                       contribute(n.arg, d, forward_.info[id].dims, id);
                     },
                     [&](const ir::Reduce& n) {
                       if (active_[n.arg]) propagate_reduce(n, id, g);
                     },
                     [&](const ir::Whole& n) {
                       std::visit([&](const auto& op) { propagate_whole(op, n.args, id, g); },
                                  n.op);
                     }},
          forward_.nodes[id]);
    }
  }

  /// Whether the gradient of a homogeneous factor covers this use (add_homogeneous).
  bool skip(ValueId user, ValueId operand) const {
    return std::any_of(linears_.begin(), linears_.end(), [&](const Linear& linear) {
      return linear.source == operand && linear.nodes.count(user);
    });
  }

  void propagate_split(const ir::Split& n, ValueId id, Value g) {
    if (!active_[n.arg]) return;
    const Columns& half = forward_.info[id].dims.columns;
    if (!has_columns(g)) {  // give it columns, so that the other half can be zero
      const bool graph = forward_.graph;
      Value columns =
          builder_.node(ir::Index{false, graph ? half.width : ir::symbol_size(ir::kSymbolN)});
      if (!graph && !(half.width == ir::symbol_size(ir::kSymbolN)))
        columns = builder_.node(ir::Split{columns.id(), n.half, 0});
      g = g + columns * 0;
    }
    const ValueId zero = builder_.real(0).id();
    const Value d = n.part == 0 ? builder_.node(ir::Join{g.id(), zero, n.half})
                                : builder_.node(ir::Join{zero, g.id(), n.half});
    Dims user = forward_.info[id].dims;
    user.columns = {Kind::all, half.width * ir::constant_size(2), {}};
    contribute(n.arg, d, user, id);
  }

  void propagate_join(const ir::Join& n, ValueId id, Value g) {
    Dims user = forward_.info[id].dims;
    user.columns = {Kind::all, user.columns.width / ir::constant_size(2), {}};
    for (int part = 0; part < 2; ++part) {
      const ValueId arg = part == 0 ? n.a : n.b;
      if (!active_[arg]) continue;
      const Value d = has_columns(g) ? builder_.node(ir::Split{g.id(), n.half, part}) : g;
      contribute(arg, d, user, id);
    }
  }

  // --- whole matrices
  // -----------------------------------------------------------------------------------

  /// g over the whole matrix that forward value `id` is.
  Value spread(Value g, ValueId id) {
    const Dims& dims = forward_.info[id].dims;
    if (!dims_of(g).rows) g = g + builder_.node(ir::Index{true}) * 0;
    if (dims_of(g).columns.kind == Kind::none)
      g = g + builder_.node(ir::Index{false, dims.columns.width}) * 0;
    return g;
  }

  Value whole(ir::WholeOp op, std::vector<ValueId> args) {
    return builder_.node(ir::Whole{std::move(op), std::move(args)});
  }

  Value columns(Value g, int64_t first, int64_t width) {
    if (dims_of(g).columns.width == ir::constant_size(width)) return g;
    return whole(ir::Slice{first, width}, {g.id()});
  }

  int64_t width(ValueId id) const { return forward_.info[id].dims.columns.width.numerator; }

  void contribute_weight(ValueId weight, Value d) {
    add_term(terms_[weight], d, forward_.info[weight].dims);
  }

  void propagate_whole(const ir::Product& n, const std::vector<ValueId>& args, ValueId id,
                       Value g) {
    g = spread(g, id);
    const size_t each = static_cast<size_t>(n.segments) + 1;
    for (size_t a = 0; a < args.size(); a += each) {
      std::vector<ValueId> operands{g.id()};
      for (size_t s = 1; s < each; ++s) operands.push_back(primal(args[a + s]).id());
      if (active_[args[a]])
        contribute(args[a], whole(ir::InputGradient{{n.segments}}, operands),
                   forward_.info[args[a]].dims, id);
      int64_t first = 0;
      for (size_t s = 1; s < each; ++s) {
        const ValueId weight = args[a + s];
        const int64_t rows = forward_.info[weight].weight_rows;
        if (active_[weight])
          contribute_weight(weight, whole(ir::WeightGradient{},
                                          {columns(g, first, rows).id(), primal(args[a]).id()}));
        first += rows;
      }
    }
  }

  void propagate_whole(const ir::Concat&, const std::vector<ValueId>& args, ValueId id, Value g) {
    const bool vector = !forward_.info[id].dims.rows;
    g = vector ? reduce_to(g, forward_.info[id].dims, "a gradient") : spread(g, id);
    int64_t first = 0;
    for (ValueId arg : args) {
      if (active_[arg] && vector)
        add_term(terms_[arg], columns(g, first, width(arg)), forward_.info[arg].dims);
      else if (active_[arg])
        contribute(arg, columns(g, first, width(arg)), forward_.info[arg].dims, id);
      first += width(arg);
    }
  }

  void propagate_whole(const ir::Repeat&, const std::vector<ValueId>& args, ValueId id, Value g) {
    if (!active_[args[0]]) return;
    const Value d = reduce_to(g, forward_.info[id].dims, "a gradient");
    add_term(terms_[args[0]], whole(ir::Period{}, {d.id()}), forward_.info[args[0]].dims);
  }

  void propagate_whole(const ir::Embedding& n, const std::vector<ValueId>& args, ValueId id,
                       Value g) {
    if (!active_[args[1]]) return;
    const Value ids = primal(args[0]);
    Value d = spread(g, id);
    if (n.padding >= 0) d = where(ne(ids, n.padding), d, 0.0);
    contribute_weight(args[1], whole(ir::EmbeddingGradient{forward_.info[args[1]].weight_rows},
                                     {ids.id(), d.id()}));
  }

  void propagate_whole(const ir::Attention& n, const std::vector<ValueId>& args, ValueId id,
                       Value g) {
    if (n.part != 0) no_derivative("the log-sum-exp of attention");
    if (active_[args[0]])
      contribute(
          args[0],
          whole(ir::AttentionGradient{n.shape}, {primal(args[0]).id(), primal(id).id(),
                                                 primal(helper_.at(id)).id(), spread(g, id).id()}),
          forward_.info[args[0]].dims, id);
  }

  template <class Op>
  void propagate_whole(const Op& op, const std::vector<ValueId>&, ValueId, Value) {
    no_derivative(ir::name_of(op));
  }

  [[noreturn]] void no_derivative(std::string_view what) const {
    refuse("differentiate '" + forward_.name + "'", "ops that have a derivative",
           std::string(what) + ", which has none", "gradients of gradients are not derived");
  }

  // --- reductions
  // ------------------------------------------------------------------------------------

  /// The dims a reduction runs over: its argument's, broadcast where kept columns differ from them.
  Dims iterated(const ir::Reduce& n) const {
    Dims dims = forward_.info[n.arg].dims;
    const Columns& kept = n.kept.columns;
    if (dims.columns.kind != Kind::none && kept.kind != Kind::none && !(kept == dims.columns))
      dims.columns = {Kind::all, dims.columns.width, {}};
    return dims;
  }

  /// How many elements make one result.
  Value count(const ir::Reduce& n) {
    const Dims over = iterated(n);
    ir::Size size = ir::constant_size(1);
    if (over.rows && !n.kept.rows) size = size * ir::symbol_size(ir::kSymbolM);
    if (over.columns.kind != Kind::none)
      size = size * column_count(over.columns) / column_count(n.kept.columns);
    return size_value(builder_, size);
  }

  void propagate_reduce(const ir::Reduce& n, ValueId id, Value g) {
    if (!within(dims_of(g), n.kept)) g = reduce_to(g, n.kept, "a reduction's gradient");
    if (builder_.program().info[g.id()].stage == Stage::complete)
      refuse("differentiate '" + forward_.name + "'", "gradients that are known inside the tile",
             "a gradient that needs a complete reduction first",
             "store " + std::string(name_of(n.op)) + " and continue in a second program");
    const auto x = [&] { return primal(n.arg); };
    const auto y = [&] { return primal(id); };
    Value d;
    switch (n.op) {
      case ReduceOp::sum:
        d = g;
        break;
      case ReduceOp::mean:
      case ReduceOp::moments_mean:
        d = g / count(n);
        break;
      case ReduceOp::logsumexp:
        d = g * exp(x() - y());
        break;
      case ReduceOp::moments_var:
        d = g * 2 / count(n) * (x() - primal(helper_.at(id)));
        break;
      case ReduceOp::max:
      case ReduceOp::min:
        d = extremum(n, id, g);
        break;
      case ReduceOp::argmax:
        return;
    }
    contribute(n.arg, d, iterated(n), id);
  }

  /// Inside the tile, ties share the gradient; a complete one goes to the first of them.
  Value extremum(const ir::Reduce& n, ValueId id, Value g) {
    if (forward_.info[id].stage == Stage::tile) {
      const Value hit = eq(primal(n.arg), primal(id));
      return where(hit, g / builder_.reduce(ReduceOp::sum, n.kept, hit), 0);
    }
    const Dims over = iterated(n);
    const bool rows = over.rows && !n.kept.rows;
    const bool columns = over.columns.kind != Kind::none;
    const bool full =
        over.columns.kind == Kind::all && over.columns.width == ir::symbol_size(ir::kSymbolN);
    if (columns && !full)
      refuse("differentiate '" + forward_.name + "'", "max and min over columns of full width",
             std::string(name_of(n.op)) + " over " + ir::to_string(over, forward_),
             "reduce before splitting, or over a value of width n");
    const bool over_columns = columns && n.kept.columns.kind != Kind::all;
    const Value m = rows ? builder_.node(ir::Index{true}) : Value{};
    Value index = over_columns ? builder_.node(ir::Index{false}) : m;
    if (over_columns && rows) index = m * builder_.node(ir::SizeParameter{ir::kSymbolN}) + index;
    return where(eq(index, primal(helper_.at(id))), g, 0);
  }

  /// Sums `d` over its own elements down to `dims`.
  Value reduce_to(Value d, const Dims& dims, std::string_view what) {
    const Dims have = dims_of(d);
    if (within(have, dims)) return d;
    if (builder_.program().info[d.id()].stage == Stage::complete)
      refuse("differentiate '" + forward_.name + "'", "gradients that are known inside the tile",
             std::string(what) + " that needs a complete reduction first", "split the program");
    return builder_.reduce(ReduceOp::sum, dims, d);
  }

  /// A factor r that stands to the first power in every value of its frontier: r * dL/dr is the sum
  /// of (value * adjoint) over the frontier (Euler's identity for homogeneous functions), which
  /// needs nothing from before the frontier.
  void add_homogeneous(ValueId source) {
    for (const Linear& linear : linears_)
      for (ValueId id : linear.frontier)
        for (const Term& term : outer_terms_[id])
          if (linear.source == source)
            contribute(linear.source, term.value * primal(id) / primal(linear.source),
                       forward_.info[id].dims, id);
  }

  void emit_gradient(int index) {
    const ir::Input& input = forward_.inputs[index];
    if (!wanted(index)) return;
    Value total;
    bool any = false;
    for (size_t i = 0; i < forward_.nodes.size(); ++i) {
      const auto* node = std::get_if<ir::InputValue>(&forward_.nodes[i]);
      if (!node || node->input != index) continue;
      for (const Term& term : terms_[i]) {
        const Value part = reduce_to(term.value, input.dims, "a gradient");
        total = any ? total + part : part;
        any = true;
      }
    }
    if (!any) {
      if (!options_.wrt.empty())
        refuse("differentiate '" + forward_.name + "'",
               "outputs that depend on '" + input.name + "'", "none does", "leave it out of wrt");
      return;
    }
    ir::ElementType type = input.type;
    const bool tile = input.dims.rows && input.dims.columns.kind == Kind::all;
    if (input.kind == ir::Input::Kind::accumulator ||
        (tile && !type.generic && size_of(type.dtype) == 1))
      type = {true};
    if (!tile) type = {};  // reduced gradients are kept in float32
    builder_.output({"d_" + input.name, type, input.dims, total.id()});
  }

  Program forward_;
  const Options& options_;
  ir::Builder builder_;
  std::vector<Linear> linears_;
  std::vector<bool> active_;
  std::map<ValueId, ValueId> helper_;  // argmax of a complete max, mean of a variance
  std::map<ValueId, Value> primals_;
  std::map<int, ValueId> placeholders_;
  std::vector<std::vector<Term>> terms_;        // whole adjoints
  std::vector<std::vector<Term>> outer_terms_;  // the part that enters a frontier from outside
};

}  // namespace

Reverse reverse(const Program& program, const Options& options) {
  return Walk(program, options).run();
}

}  // namespace coda::autodiff

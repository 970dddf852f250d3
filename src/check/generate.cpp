// SPDX-License-Identifier: Apache-2.0
// Grows a program step by step from random operands. What fits what is not decided here: a node
// that the builder refuses is tried again with other operands, so the rules stand in ir/infer.cpp
// alone.
#include "check/generate.h"

#include <coda/error.h>

#include <algorithm>
#include <string>

#include "check/random.h"
#include "ir/builder.h"
#include "ir/simplify.h"

namespace coda::check {
namespace {

using ir::Columns;
using ir::Dims;
using ir::ElementType;
using ir::Op;
using ir::ReduceOp;
using ir::Size;
using Kind = ir::Columns::Kind;

/// A value and about how large it gets.
struct Entry {
  Value value;
  double scale = 1;
};

constexpr double kTame = 16;  // larger values are brought back by tanh
const Size kN = ir::symbol_size(ir::kSymbolN);

class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options)
      : random_(seed), options_(options), builder_("random_" + std::to_string(seed)) {
    half_ = builder_.size_parameter("h");
    count_ = builder_.size_parameter("r");
  }

  ir::Program run() {
    add_inputs();
    const auto tries = [&](int steps, auto&& step) {
      for (int i = 0; i < steps; ++i)
        for (int t = 0; t < 20; ++t)
          if (attempt(step)) break;
    };
    tries(options_.steps, [&] { tile_step(); });
    tries(2 + static_cast<int>(random_.below(3)), [&] { complete_reduction(); });
    tries(options_.complete_steps, [&] { complete_step(); });
    add_outputs();
    return ir::eliminate(builder_.finish());
  }

 private:
  /// Runs a step; false where it was refused (the builder is then as before but for constants).
  template <class Step>
  bool attempt(Step&& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::program) throw;
      return false;
    }
  }

  const ir::ValueInfo& info(Value v) { return builder_.program().info[builder_.id(v)]; }
  bool is_integer(const Entry& e) { return info(e.value).number != ir::Number::real; }

  // ---- sizes and dims ----

  Size half_size() {
    const Size h = ir::symbol_size(half_);
    const Size choices[] = {ir::constant_size(1), ir::constant_size(2), ir::constant_size(4),
                            h / ir::constant_size(2), h};
    return random_.pick(choices);
  }
  Size group_size() {
    const Size h = ir::symbol_size(half_);
    const Size choices[] = {ir::constant_size(2), ir::constant_size(4), ir::constant_size(16), h,
                            ir::constant_size(2) * h};
    return random_.pick(choices);
  }
  Size width() {
    const double kind = random_.uniform();
    if (kind < 0.7) return kN;
    return kind < 0.87 ? kN / ir::constant_size(2) : kN * ir::constant_size(2);
  }
  Columns columns(double all, double group, double repeat) {
    const double kind = random_.uniform() * (all + group + repeat);
    if (kind < all) return {Kind::all, width(), Size{}};
    return {kind < all + group ? Kind::group : Kind::repeat, width(), group_size()};
  }

  ElementType float_type() {
    const double kind = random_.uniform();
    if (kind < 0.5) return {true, DType::f32};
    if (kind < 0.75 || !options_.narrow_floats) return {false, DType::f32};
    static constexpr DType kNarrow[] = {DType::bf16, DType::f16, DType::e4m3, DType::e5m2};
    return {false, random_.pick(kNarrow)};
  }
  ElementType integer_type() {
    static constexpr DType kTypes[] = {DType::i32, DType::i64, DType::u8};
    return {false, random_.pick(kTypes)};
  }

  // ---- inputs ----

  void add(Value value, double scale) { pool_.push_back({value, scale}); }

  void add_input(const std::string& name) {
    const double kind = random_.uniform();
    ir::Input input{name, ir::Input::Kind::tensor, {}, {}};
    const bool integer = options_.integers && random_.chance(0.25);
    input.type = integer ? integer_type() : float_type();
    if (kind < 0.45) {
      input.dims = {true, columns(0.85, 0.15, 0)};
    } else if (kind < 0.65) {
      input.dims = {false, columns(0.6, 0.1, 0.3)};
    } else if (kind < 0.85) {
      input.dims = {true, {}};
    } else if (kind < 0.95) {
      input.kind = ir::Input::Kind::scalar;
      if (integer)
        input.type = {false, random_.chance(0.5) ? DType::i32 : DType::i64};
      else
        input.type = {false, DType::f32};
    }
    add(builder_.input(input), integer ? 4096 : 4);
  }

  void add_inputs() {
    const double kind = random_.uniform();
    const int accumulators = kind < 0.2 ? 0 : kind < 0.7 ? 1 : 2;
    for (int i = 0; i < accumulators; ++i)
      add(builder_.input({i == 0 ? "a" : "b", ir::Input::Kind::accumulator, {}, {}}), 4);
    const int64_t tensors = random_.below(5) + (accumulators == 0);
    for (int64_t i = 0; i < tensors; ++i) add_input("x" + std::to_string(i));
  }

  // ---- picking operands ----

  /// A value of the pool, the later ones more often.
  Entry pick() {
    const auto size = static_cast<int64_t>(pool_.size());
    const int64_t back = std::min(random_.below(size), random_.below(size));
    return pool_[static_cast<size_t>(size - 1 - back)];
  }
  /// One of the last few, which stand on most of the others.
  Entry late() {
    const auto size = static_cast<int64_t>(pool_.size());
    return pool_[static_cast<size_t>(size - 1 - random_.below(std::min<int64_t>(size, 4)))];
  }
  Entry real() {
    for (int i = 0; i < 20; ++i)
      if (const Entry e = pick(); !is_integer(e)) return e;
    return constant();
  }
  Entry tame() { return tamed(real()); }
  Entry constant() {
    static constexpr double kConstants[] = {0.5, 2.0, 0.1, 1.7, -0.3, 0.044715, -1.5, 3.0};
    return {builder_.real(random_.pick(kConstants)), 3};
  }
  /// Brought back into a small range where it may be large.
  Entry tamed(Entry e) {
    if (e.scale <= kTame) return e;
    return {tanh(e.value * (2 / e.scale)), 1};
  }
  Value positive(Entry e) { return abs(e.value) + 0.1; }

  Entry integer() {
    const double kind = random_.uniform();
    if (kind < 0.25) return {builder_.node(ir::Index{false}), 4096};
    if (kind < 0.35) return {builder_.node(ir::Index{true}), 4096};
    if (kind < 0.42)
      return {builder_.node(ir::SizeParameter{random_.chance(0.5) ? count_ : half_}), 512};
    if (kind < 0.47) return {builder_.node(ir::SizeParameter{random_.chance(0.5) ? 0 : 1}), 1024};
    if (kind < 0.57) return {builder_.integer(1 + random_.below(9)), 9};
    for (int i = 0; i < 20; ++i)
      if (const Entry e = pick(); is_integer(e)) return e;
    return {builder_.node(ir::Index{false}), 4096};
  }

  // ---- steps ----

  void tile_step() {
    const double kind = random_.uniform();
    Entry result;
    if (kind < 0.24)
      result = unary(tame());
    else if (kind < 0.52)
      result = binary(tame(), random_.chance(0.2) ? constant() : tame());
    else if (kind < 0.60)
      result = select();
    else if (kind < 0.70)
      result = options_.integers ? integer_step() : unary(tame());
    else if (kind < 0.86)
      result = pair();
    else if (kind < 0.90)
      result = rounded(real());
    else
      result = group_reduction();
    if (random_.chance(0.4)) builder_.name(result.value, "v" + std::to_string(pool_.size()));
    pool_.push_back(result);
  }

  Entry unary(Entry x) {
    static constexpr Op kOps[] = {Op::neg,  Op::abs, Op::exp, Op::log,     Op::sqrt, Op::rsqrt,
                                  Op::tanh, Op::erf, Op::sin, Op::sigmoid, Op::cos};
    const Op op = random_.pick(kOps);
    const auto apply = [&](Value v) { return builder_.elementwise(op, {v}); };
    switch (op) {
      case Op::exp:
        return {apply(x.scale > 2 ? tanh(x.value) : x.value), 7};
      case Op::log:
        return {apply(positive(x)), 3};
      case Op::sqrt:
        return {apply(positive(x)), 4};
      case Op::rsqrt:
        return {apply(positive(x)), 3.2};
      case Op::neg:
      case Op::abs:
        return {apply(x.value), x.scale};
      default:
        return {apply(x.value), 1};
    }
  }

  Entry binary(Entry x, Entry y) {
    static constexpr Op kOps[] = {Op::add, Op::add, Op::sub, Op::mul, Op::mul,
                                  Op::mul, Op::div, Op::min, Op::max};
    const Op op = random_.pick(kOps);
    const Value value =
        op == Op::div ? x.value / positive(y) : builder_.elementwise(op, {x.value, y.value});
    switch (op) {
      case Op::mul:
        return {value, x.scale * y.scale};
      case Op::div:
        return {value, x.scale * 4};
      case Op::add:
      case Op::sub:
        return {value, x.scale + y.scale};
      default:
        return {value, std::max(x.scale, y.scale)};
    }
  }

  Value condition() {
    static constexpr Op kCompare[] = {Op::lt, Op::le, Op::eq, Op::ne, Op::ge, Op::gt};
    if (options_.integers && random_.chance(0.6)) {
      const Entry i = integer();
      return random_.chance(0.2)
                 ? i.value
                 : builder_.elementwise(random_.pick(kCompare), {i.value, integer().value});
    }
    const Entry x = real();
    const Entry y = random_.chance(0.5) ? constant() : real();
    return builder_.elementwise(random_.chance(0.5) ? Op::lt : Op::ge, {x.value, y.value});
  }

  Entry select() {
    if (random_.chance(0.25)) {
      const Entry x = real();
      return {clamp(x.value, -1.25, 2.5), 2.5};
    }
    const Entry x = real(), y = random_.chance(0.3) ? Entry{Value(0), 0} : real();
    return {where(condition(), x.value, y.value), std::max(x.scale, y.scale)};
  }

  Entry integer_step() {
    const Entry i = integer();
    const double kind = random_.uniform();
    if (kind < 0.2) return {i.value % (1 + random_.below(7)), 7};
    if (kind < 0.4) return {i.value + integer().value, i.scale + 4096};
    if (kind < 0.5) return {i.value * integer().value, 1e6};
    if (kind < 0.6) return {condition(), 1};
    if (kind < 0.75) return {i.value / 4096, 1};
    if (kind < 0.85) return {min(i.value, integer().value), 4096};
    const Entry frequency = tame();  // an angle: kept as two floats
    const Value angle = i.value * frequency.value;
    return {random_.chance(0.5) ? sin(angle) : cos(angle), 1};
  }

  Entry pair() {
    const Entry x = tame();
    const double kind = random_.uniform();
    if (kind < 0.3) {
      const Size half = half_size();
      const Value first = builder_.node(ir::Split{builder_.id(x.value), half, 0});
      const Value second = builder_.node(ir::Split{builder_.id(x.value), half, 1});
      add(second, x.scale);
      if (random_.chance(0.4))
        return {builder_.node(ir::Join{builder_.id(second), builder_.id(first), half}), x.scale};
      return {first, x.scale};
    }
    if (kind < 0.6) {
      const Entry y = random_.chance(0.2) ? Entry{builder_.real(0.25), 1} : tame();
      return {builder_.node(ir::Join{builder_.id(x.value), builder_.id(y.value), half_size()}),
              std::max(x.scale, y.scale)};
    }
    const Size half = half_size();
    const Size factor = ir::constant_size(random_.chance(0.5) ? 2 : 4);
    return {builder_.node(ir::Swap{builder_.id(x.value), half, half * factor}), x.scale};
  }

  Entry rounded(Entry x) {
    ElementType type = float_type();
    return {builder_.node(ir::Round{builder_.id(x.value), type}), x.scale};
  }

  ReduceOp reduce_op() {
    static constexpr ReduceOp kOps[] = {
        ReduceOp::sum,       ReduceOp::max,    ReduceOp::min,          ReduceOp::mean,
        ReduceOp::logsumexp, ReduceOp::argmax, ReduceOp::moments_mean, ReduceOp::moments_var};
    return random_.pick(kOps);
  }

  Entry reduction(Entry x, const Dims& kept, double terms) {
    const ReduceOp op = reduce_op();
    const bool moments = op == ReduceOp::moments_mean || op == ReduceOp::moments_var;
    const Value first = builder_.reduce(moments ? ReduceOp::moments_mean : op, kept, x.value);
    switch (op) {
      case ReduceOp::sum:
        return {first, x.scale * terms};
      case ReduceOp::logsumexp:
        return {first, x.scale + 8};
      case ReduceOp::argmax:
        return {first, 1e6};
      case ReduceOp::moments_mean:
        return {first, x.scale};
      case ReduceOp::moments_var:
        return {builder_.reduce(op, kept, x.value), x.scale * x.scale};
      default:
        return {first, x.scale};
    }
  }

  Entry group_reduction() {
    const Entry x = random_.chance(0.85) ? tame() : integer();
    return reduction(x, {true, {Kind::group, width(), group_size()}}, 16);
  }

  void complete_reduction() {
    const Entry x = random_.chance(0.8) ? tame() : integer();
    Dims kept;
    const double kind = random_.uniform();
    if (kind < 0.35)
      kept.rows = true;
    else if (kind < 0.65)
      kept.columns = {Kind::all, width(), Size{}};
    else if (kind < 0.75)
      kept.columns = {Kind::group, width(), group_size()};
    else if (kind < 0.85)
      kept.columns = {Kind::repeat, width(), group_size()};
    else if (kind < 0.92)
      kept = {true, {Kind::repeat, width(), group_size()}};
    complete_.push_back(reduction(x, kept, 1e6));
  }

  /// Arithmetic on finished values, among each other and with vectors that fit.
  void complete_step() {
    if (complete_.empty()) return;
    Entry x = complete_[static_cast<size_t>(random_.below(std::ssize(complete_)))];
    if (is_integer(x)) x = {x.value * 1e-3, x.scale * 1e-3};
    x = tamed(x);
    const double kind = random_.uniform();
    Entry result;
    if (kind < 0.4)
      result = unary(x);
    else if (kind < 0.6)
      result = binary(x, constant());
    else {
      Entry y = random_.chance(0.5)
                    ? complete_[static_cast<size_t>(random_.below(std::ssize(complete_)))]
                    : real();
      if (is_integer(y)) y = {y.value * 1e-3, y.scale * 1e-3};
      result = binary(x, tamed(y));
    }
    complete_.push_back(result);
  }

  // ---- outputs ----

  void add_output(Entry e) {
    const ir::ValueInfo value = info(e.value);
    ElementType type = float_type();
    if (value.number != ir::Number::real && random_.chance(0.7)) type = integer_type();
    Dims dims = value.dims;
    if (value.stage == ir::Stage::tile && random_.chance(0.15)) dims.rows = true;
    if (value.stage == ir::Stage::tile && dims.columns.kind == Kind::group && random_.chance(0.5))
      dims.columns = {Kind::all, dims.columns.width, Size{}};
    const std::string name = "y" + std::to_string(builder_.program().outputs.size());
    builder_.name(e.value, name);
    builder_.output({name, type, dims, builder_.id(e.value)});
  }

  void add_outputs() {
    const int64_t tiles = 1 + random_.below(3), finished = random_.below(4);
    for (int64_t i = 0; i < tiles; ++i)
      for (int t = 0; t < 20; ++t)
        if (attempt([&] { add_output(random_.chance(0.7) ? late() : pick()); })) break;
    for (int64_t i = 0; i < finished && !complete_.empty(); ++i)
      attempt([&] {
        add_output(complete_[static_cast<size_t>(random_.below(std::ssize(complete_)))]);
      });
    if (builder_.program().outputs.empty()) add_output({pool_[0].value * 1.0, 4});
  }

  Random random_;
  const GeneratorOptions& options_;
  ir::Builder builder_;
  int half_ = 0, count_ = 0;
  std::vector<Entry> pool_, complete_;
};

}  // namespace

ir::Program random_program(uint64_t seed, const GeneratorOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace coda::check

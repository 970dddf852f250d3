// SPDX-License-Identifier: Apache-2.0
// Pass 1, expand: composites become arithmetic.
//
// The only place that knows what rms_norm, swiglu, rope or cross_entropy are. Everything behind it
// sees products, elementwise operations, pairs and reductions, so a new composite costs one
// function here and gains fusion and its gradient from the passes that follow. It runs first.
#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::Builder;
using ir::Columns;
using ir::Composite;
using ir::Dims;
using ir::ReduceOp;
using Kind = Composite::Kind;

const Dims kPerToken{true, {}};

Value silu(Value x) { return x * sigmoid(x); }
/// x * sigmoid(2 t) for the tanh form, because (1 + tanh t) / 2 = sigmoid(2 t).
Value gelu_tanh(Value x) { return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)); }

class Expansion {
 public:
  Expansion(Builder& builder, const Composite& op, std::vector<Value> args)
      : builder_(builder), op_(op), args_(std::move(args)) {}

  Value run() {
    const Value x = args_[0];
    switch (op_.kind) {
      case Kind::rms_norm:
        // The row scale comes last, so that the next pass finds it.
        return x * weight(args_[1]) * rsqrt(mean(x * x, kPerToken) + op_.eps);
      case Kind::layer_norm: {
        const Value mu = builder_.reduce(ReduceOp::moments_mean, kPerToken, x);
        const Value variance = builder_.reduce(ReduceOp::moments_var, kPerToken, x);
        return (x - mu) * rsqrt(variance + op_.eps) * args_[1] + args_[2];
      }
      case Kind::swiglu:
        return silu(x) * args_[1];
      case Kind::geglu:
        return gelu_tanh(x) * args_[1];
      case Kind::rope:
        return rope(x, args_[1], args_[2]);
      case Kind::head_norm: {
        const Dims heads{true, {Columns::Kind::group, ir::constant_size(width(x)), half(2)}};
        return x * rsqrt(mean(x * x, heads) + op_.eps) * weight(repeat(args_[1], width(x)));
      }
      case Kind::cross_entropy:
        return cross_entropy(x, args_[1]);
      case Kind::z_loss: {
        const Value lse = builder_.reduce(ReduceOp::logsumexp, kPerToken, x);
        return where(counts(args_[1]), lse * lse, 0.0);
      }
    }
    return x;
  }

 private:
  Value mean(Value x, const Dims& kept) { return builder_.reduce(ReduceOp::mean, kept, x); }
  Value weight(Value w) { return op_.unit_offset ? 1.0 + w : w; }
  int64_t width(Value x) const {
    return builder_.program().info[x.id()].dims.columns.width.numerator;
  }
  ir::Size half(int64_t times = 1) const {
    return ir::constant_size(op_.head_size / 2 * times + (times == 2 ? op_.head_size % 2 : 0));
  }
  Value repeat(Value vector, int64_t columns) {
    return builder_.node(ir::Whole{ir::Repeat{columns}, {vector.id()}});
  }

  Value rope(Value x, Value positions, Value frequencies) {
    const Value a = builder_.node(ir::Split{x.id(), half(), 0});
    const Value b = builder_.node(ir::Split{x.id(), half(), 1});
    const Value angle = positions * repeat(frequencies, width(x) / 2);
    Value c = cos(angle), s = sin(angle);
    if (op_.scale != 1) c = c * op_.scale, s = s * op_.scale;
    const Value first = a * c - b * s, second = b * c + a * s;
    return builder_.node(ir::Join{first.id(), second.id(), half()});
  }

  Value counts(Value labels) { return ne(labels, op_.ignored); }

  /// logsumexp - logits[label], both from unrounded logits.
  Value cross_entropy(Value logits, Value labels) {
    const Value lse = builder_.reduce(ReduceOp::logsumexp, kPerToken, logits);
    const Value column = builder_.node(ir::Index{false, ir::constant_size(width(logits))});
    const Value hit =
        builder_.reduce(ReduceOp::sum, kPerToken, where(eq(column, labels), logits, 0.0));
    Value loss = lse - hit;
    if (op_.smoothing > 0)
      loss = (1 - op_.smoothing) * loss + op_.smoothing * (lse - mean(logits, kPerToken));
    return where(counts(labels), loss, 0.0);
  }

  Builder& builder_;
  const Composite& op_;
  std::vector<Value> args_;
};

}  // namespace

ir::Program expand(const ir::Program& graph) {
  return rebuild(graph, [](Rebuild& to, const ir::Node& node, ir::ValueId) -> std::optional<Value> {
    const auto* composite = ir::whole<Composite>(node);
    if (!composite) return std::nullopt;
    std::vector<Value> args;
    for (ir::ValueId id : ir::operands(node)) args.push_back(to.value(id));
    return Expansion(to.builder(), *composite, std::move(args)).run();
  });
}

}  // namespace coda::rewrite

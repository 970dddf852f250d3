// SPDX-License-Identifier: Apache-2.0
// What the whole-matrix nodes of a graph take and make. Messages name the op and the shapes as
// users write them: [rms_norm] expected weight of shape [2048], got [1024].
#include "ir/whole.h"

#include <coda/error.h>

#include <cmath>
#include <string>

#include "ir/program.h"

namespace coda::ir {
namespace {

using Kind = Columns::Kind;

std::string shape_of(const ValueInfo& value) {
  const Columns& columns = value.dims.columns;
  const auto count = [&](const Size& size) { return to_string(size, {}); };
  std::string text;
  if (value.weight_rows) text = std::to_string(value.weight_rows);
  if (value.dims.rows) text = "M";
  if (columns.kind != Kind::none) {
    if (!text.empty()) text += ", ";
    const Size& size = columns.kind == Kind::all ? columns.width : columns.size;
    text += (columns.kind == Kind::group ? count(columns.width) + ":" : "") + count(size);
  }
  return "[" + text + "]";
}

/// Checks the arguments of one node.
class Check {
 public:
  Check(const Program& program, const Whole& node) : program_(program), node_(node) {}

  size_t count() const { return node_.args.size(); }
  const ValueInfo& arg(size_t i) const { return program_.info[node_.args[i]]; }

  [[noreturn]] void refuse(const std::string& expected, const std::string& got,
                           std::string_view fix = {}) const {
    throw Error(ErrorKind::shape, "[" + std::string(name_of(node_.op)) + "]", expected, got, fix);
  }

  void arguments(size_t expected) const {
    if (count() != expected)
      refuse(std::to_string(expected) + " arguments", std::to_string(count()));
  }

  /// The width of argument i, a matrix over tokens and columns.
  int64_t matrix(size_t i, std::string_view what) const {
    const ValueInfo& value = arg(i);
    if (!value.dims.rows || value.dims.columns.kind != Kind::all || value.weight_rows)
      refuse(std::string(what) + " over tokens and columns, [M, K]", shape_of(value));
    return value.dims.columns.width.numerator;
  }

  void matrix(size_t i, std::string_view what, int64_t width) const {
    if (matrix(i, what) != width)
      refuse(std::string(what) + " of shape [M, " + std::to_string(width) + "]", shape_of(arg(i)));
  }

  void weight(size_t i) const {
    if (!arg(i).weight_rows)
      refuse("a weight of shape [out, in]", shape_of(arg(i)), "weights are declared as parameters");
  }
  void weight(size_t i, int64_t rows, int64_t columns) const {
    weight(i);
    if (arg(i).weight_rows != rows || columns_of(i) != columns)
      refuse("weight of shape [" + std::to_string(rows) + ", " + std::to_string(columns) + "]",
             shape_of(arg(i)));
  }
  int64_t columns_of(size_t i) const { return arg(i).dims.columns.width.numerator; }

  /// A vector of `size` numbers, one a column.
  void vector(size_t i, std::string_view what, int64_t size) const {
    const ValueInfo& value = arg(i);
    const bool fits = !value.dims.rows && !value.weight_rows &&
                      value.dims.columns.kind == Kind::all &&
                      value.dims.columns.width == constant_size(size);
    if (!fits)
      refuse(std::string(what) + " of shape [" + std::to_string(size) + "]", shape_of(value));
  }

  /// One integer a token.
  void tokens(size_t i, std::string_view what) const {
    const ValueInfo& value = arg(i);
    if (!(value.dims == Dims{true, {}}) || value.number == Number::real)
      refuse(std::string(what) + " of shape [M], integers",
             shape_of(value) + (value.number == Number::real ? ", floats" : ""));
  }

 private:
  const Program& program_;
  const Whole& node_;
};

ValueInfo over_tokens(int64_t width) { return {{true, {Kind::all, constant_size(width), Size{}}}}; }
ValueInfo weight_info(int64_t rows, int64_t columns) {
  return {{false, {Kind::all, constant_size(columns), Size{}}}, Number::real, Stage::tile, rows};
}

/// Terms of a product: how many arguments each has, checked against their number.
size_t terms(const Check& check, int segments) {
  const size_t each = static_cast<size_t>(segments) + 1;
  if (segments < 1 || check.count() == 0 || check.count() % each != 0)
    check.refuse("a matrix and its weights, for each term",
                 std::to_string(check.count()) + " arguments");
  return check.count() / each;
}

ValueInfo infer_op(const Check& check, const Product& n) {
  const size_t count = terms(check, n.segments), each = static_cast<size_t>(n.segments) + 1;
  int64_t width = 0;
  for (size_t t = 0; t < count; ++t) {
    const size_t a = t * each;
    const int64_t depth = check.matrix(a, "an operand");
    for (size_t s = 1; s < each; ++s) {
      check.weight(a + s);
      const int64_t rows = check.arg(t == 0 ? a + s : s).weight_rows;
      check.weight(a + s, rows, depth);
      if (t == 0) width += rows;
    }
  }
  return over_tokens(width);
}

ValueInfo infer_op(const Check& check, const InputGradient& n) {
  size_t at = 0;
  for (int segments : n.segments) at += static_cast<size_t>(segments) + 1;
  if (at != check.count() || at < 2)
    check.refuse("a matrix and its weights, for each term",
                 std::to_string(check.count()) + " arguments");
  check.weight(1);
  const int64_t width = check.columns_of(1);
  at = 0;
  for (int segments : n.segments) {
    int64_t depth = 0;
    const size_t a = at++;
    for (int s = 0; s < segments; ++s, ++at) {
      check.weight(at);
      check.weight(at, check.arg(at).weight_rows, width);
      depth += check.arg(at).weight_rows;
    }
    check.matrix(a, "an operand", depth);
  }
  return over_tokens(width);
}

ValueInfo infer_op(const Check& check, const WeightGradient&) {
  check.arguments(2);
  return weight_info(check.matrix(0, "a gradient"), check.matrix(1, "an operand"));
}

/// The width of argument i, a matrix over tokens or a vector of one value a column.
int64_t columns(const Check& check, size_t i) {
  if (check.arg(i).dims.rows) return check.matrix(i, "a value");
  check.vector(i, "a vector", check.columns_of(i));
  return check.columns_of(i);
}

ValueInfo sized(const ValueInfo& like, int64_t width) {
  ValueInfo result = like;
  result.dims.columns = {Kind::all, constant_size(width), Size{}};
  return result;
}

ValueInfo infer_op(const Check& check, const Slice& n) {
  check.arguments(1);
  const int64_t width = columns(check, 0);
  if (n.first < 0 || n.width < 1 || n.first > width - n.width)
    check.refuse("columns inside [0, " + std::to_string(width) + ")",
                 std::to_string(n.width) + " from " + std::to_string(n.first));
  return sized(check.arg(0), n.width);
}

ValueInfo infer_op(const Check& check, const Concat&) {
  if (check.count() == 0) check.refuse("at least one value", "none");
  int64_t width = 0;
  for (size_t i = 0; i < check.count(); ++i) {
    width += columns(check, i);
    if (check.arg(i).dims.rows != check.arg(0).dims.rows)
      check.refuse("matrices over tokens, or vectors", "both");
  }
  return sized(check.arg(0), width);
}

ValueInfo infer_op(const Check& check, const Repeat& n) {
  check.arguments(1);
  const int64_t period = check.columns_of(0);
  check.vector(0, "a vector", period);
  if (n.width < 1 || n.width % period != 0)
    check.refuse("a multiple of " + std::to_string(period) + " columns", std::to_string(n.width));
  ValueInfo result = check.arg(0);
  result.dims.columns = {Kind::repeat, constant_size(n.width), constant_size(period)};
  return result;
}

ValueInfo infer_op(const Check& check, const Period&) {
  check.arguments(1);
  const ValueInfo& arg = check.arg(0);
  if (arg.dims.rows || arg.dims.columns.kind != Kind::repeat)
    check.refuse("a repeating vector", "another value");
  return sized(arg, arg.dims.columns.size.numerator);
}

ValueInfo infer_op(const Check& check, const Embedding&) {
  check.arguments(2);
  check.tokens(0, "ids");
  check.weight(1);
  return over_tokens(check.columns_of(1));
}

ValueInfo infer_op(const Check& check, const EmbeddingGradient& n) {
  check.arguments(2);
  check.tokens(0, "ids");
  return weight_info(n.rows, check.matrix(1, "a gradient"));
}

int64_t packed_width(const Check& check, const AttentionShape& shape) {
  if (shape.query_heads < 1 || shape.key_heads < 1 || shape.head_size < 1 ||
      shape.query_heads % shape.key_heads != 0)
    check.refuse("query heads that are a multiple of the key heads",
                 std::to_string(shape.query_heads) + " and " + std::to_string(shape.key_heads));
  return (shape.query_heads + 2 * shape.key_heads) * shape.head_size;
}

ValueInfo infer_op(const Check& check, const Attention& n) {
  check.arguments(1);
  check.matrix(0, "queries, keys and values", packed_width(check, n.shape));
  return over_tokens(n.part == 0 ? n.shape.query_heads * n.shape.head_size : n.shape.query_heads);
}

ValueInfo infer_op(const Check& check, const AttentionGradient& n) {
  check.arguments(4);
  const int64_t width = packed_width(check, n.shape);
  check.matrix(0, "queries, keys and values", width);
  check.matrix(1, "the result", n.shape.query_heads * n.shape.head_size);
  check.matrix(2, "log-sum-exps", n.shape.query_heads);
  check.matrix(3, "a gradient", n.shape.query_heads * n.shape.head_size);
  return over_tokens(width);
}

ValueInfo infer_op(const Check& check, const Composite& n) {
  using Composite = Composite::Kind;
  const int64_t width = check.count() ? check.matrix(0, "an input") : 0;
  const auto heads = [&] {
    if (n.head_size < 1 || width % n.head_size != 0)
      check.refuse("heads of " + std::to_string(n.head_size) + " columns that fill the width",
                   std::to_string(width) + " columns");
  };
  switch (n.kind) {
    case Composite::rms_norm:
      check.arguments(2);
      check.vector(1, "weight", width);
      break;
    case Composite::layer_norm:
      check.arguments(3);
      check.vector(1, "weight", width);
      check.vector(2, "bias", width);
      break;
    case Composite::swiglu:
    case Composite::geglu:
      check.arguments(2);
      check.matrix(1, "up", width);
      break;
    case Composite::rope:
      check.arguments(3);
      heads();
      if (n.head_size % 2) check.refuse("heads of an even size", std::to_string(n.head_size));
      check.tokens(1, "positions");
      check.vector(2, "frequencies", n.head_size / 2);
      break;
    case Composite::head_norm:
      check.arguments(2);
      heads();
      check.vector(1, "weight", n.head_size);
      break;
    case Composite::cross_entropy:
    case Composite::z_loss:
      check.arguments(2);
      check.tokens(1, "labels");
      if (!(n.smoothing >= 0 && n.smoothing <= 1))
        check.refuse("label smoothing in [0, 1]", std::to_string(n.smoothing));
      return {{true, {}}, Number::real};
  }
  return over_tokens(width);
}

const char* name(const Composite& n) {
  switch (n.kind) {
    case Composite::Kind::rms_norm:
      return "rms_norm";
    case Composite::Kind::layer_norm:
      return "layer_norm";
    case Composite::Kind::swiglu:
      return "swiglu";
    case Composite::Kind::geglu:
      return "geglu";
    case Composite::Kind::rope:
      return "rope";
    case Composite::Kind::head_norm:
      return "head_norm";
    case Composite::Kind::cross_entropy:
      return "cross_entropy";
    case Composite::Kind::z_loss:
      return "z_loss";
  }
  return "?";
}

}  // namespace

const char* name_of(const WholeOp& op) {
  return std::visit(
      Overloaded{[](const Product&) { return "matmul"; },
                 [](const InputGradient&) { return "input_gradient"; },
                 [](const WeightGradient&) { return "weight_gradient"; },
                 [](const Slice&) { return "slice"; }, [](const Concat&) { return "concat"; },
                 [](const Repeat&) { return "repeat"; }, [](const Period&) { return "period"; },
                 [](const Embedding&) { return "embedding"; },
                 [](const EmbeddingGradient&) { return "embedding_gradient"; },
                 [](const Attention&) { return "attention"; },
                 [](const AttentionGradient&) { return "attention_gradient"; },
                 [](const Composite& n) { return name(n); }},
      op);
}

void check_attention(const Program& program, const Whole& node) {
  const Check check(program, node);
  const AttentionShape& shape = std::get<Attention>(node.op).shape;
  packed_width(check, shape);
  check.matrix(0, "q", shape.query_heads * shape.head_size);
  check.matrix(1, "k", shape.key_heads * shape.head_size);
  check.matrix(2, "v", shape.key_heads * shape.head_size);
  const auto refuse = [](const char* option, const char* expected, const std::string& got) {
    throw Error(ErrorKind::argument, std::string("[attention] ") + option, expected, got);
  };
  if (!std::isfinite(shape.scale)) refuse("scale", "a finite number", std::to_string(shape.scale));
  if (!(shape.softcap >= 0 && std::isfinite(shape.softcap)))
    refuse("softcap", "0 or a number above it", std::to_string(shape.softcap));
  if (shape.window < 0) refuse("window", "0 or a number above it", std::to_string(shape.window));
}

ValueInfo infer_whole(const Program& program, const Whole& node) {
  const Check check(program, node);
  return std::visit([&](const auto& op) { return infer_op(check, op); }, node.op);
}

}  // namespace coda::ir

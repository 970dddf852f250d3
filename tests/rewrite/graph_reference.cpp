// SPDX-License-Identifier: Apache-2.0
#include "rewrite/graph_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace coda::test {
namespace {

using ir::Columns;
using ir::Dims;
using ir::Op;
using ir::ReduceOp;
using ir::ValueId;
using ir::Whole;

double floor_remainder(double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }
double absolute(double a) { return std::fabs(a); }
double quotient(double a, double b) { return a / b; }
double lesser(double a, double b) { return std::min(a, b); }
double greater(double a, double b) { return std::max(a, b); }
double rsqrt(double a) { return 1 / std::sqrt(a); }
double sigmoid(double a) { return 1 / (1 + std::exp(-a)); }

double apply(Op op, double a, double b, double c) {
  using std::cos, std::erf, std::exp, std::log, std::sin, std::sqrt, std::tanh;
  (void)b, (void)c;
  switch (op) {
#define CODA_OP(name, arity, kind, ulps, expression, ...) \
  case Op::name:                                          \
    return static_cast<double>(expression);
#include <coda/elementwise.def>
  }
  return 0;
}

int64_t count(const Columns& columns) {
  switch (columns.kind) {
    case Columns::Kind::none:
      return 1;
    case Columns::Kind::all:
      return columns.width.numerator;
    case Columns::Kind::group:
      return columns.width.numerator / columns.size.numerator;
    case Columns::Kind::repeat:
      return columns.size.numerator;
  }
  return 1;
}

/// Which stored column belongs to column j of a full-width value.
int64_t stored_column(const Columns& columns, int64_t j) {
  switch (columns.kind) {
    case Columns::Kind::none:
      return 0;
    case Columns::Kind::all:
      return j;
    case Columns::Kind::group:
      return j / columns.size.numerator;
    case Columns::Kind::repeat:
      return j % columns.size.numerator;
  }
  return 0;
}

Matrix make(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<size_t>(rows * columns))};
}

class Evaluation {
 public:
  Evaluation(const ir::Program& graph, const Matrices& inputs, int64_t tokens,
             std::vector<int64_t> sequences, std::mt19937* rounding)
      : graph_(graph),
        inputs_(inputs),
        tokens_(tokens),
        sequences_(std::move(sequences)),
        rounding_(rounding) {
    if (sequences_.empty()) sequences_ = {0, tokens};
  }

  Matrices run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      values_.push_back(std::visit(
          [&](const auto& node) { return value(static_cast<ValueId>(i), node); }, graph_.nodes[i]));
    Matrices outputs;
    for (const ir::Output& output : graph_.outputs)
      outputs[output.name] = values_[static_cast<size_t>(output.value)];
    return outputs;
  }

 private:
  const ir::ValueInfo& info(ValueId id) const { return graph_.info[id]; }
  const Matrix& get(ValueId id) const { return values_[id]; }
  Matrix empty(ValueId id) const {
    const ir::ValueInfo& value = info(id);
    return make(value.weight_rows ? value.weight_rows
                : value.dims.rows ? tokens_
                                  : 1,
                count(value.dims.columns));
  }
  /// Element (i, j) of a value where j counts full-width columns.
  double element(ValueId id, int64_t i, int64_t j) const {
    const Dims& dims = info(id).dims;
    const bool rows = dims.rows || info(id).weight_rows;
    return get(id).at(rows ? i : 0, stored_column(dims.columns, j));
  }

  /// A result of an operation that is right to `ulps` units of the last place of float32; what is a
  /// float32 already stays, unless the operation is not exact there either.
  double rounded(double x, double ulps = 0.5) const {
    if (!rounding_ || x == 0 || !std::isfinite(x) || ulps == 0) return x;
    if (ulps <= 0.5 && static_cast<double>(static_cast<float>(x)) == x) return x;
    // By hand what ilogb, ldexp and a distribution do: it is most of the time of these tests.
    constexpr uint64_t kExponent = uint64_t{0x7ff} << 52;
    const double unit = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & kExponent) * 0x1p-23;
    const double away = ulps * (static_cast<double>((*rounding_)()) * 0x1p-31 - 1);
    return static_cast<float>(x + away * unit);
  }
  /// sum + a * b, as a product accumulates it.
  double accumulated(double sum, double a, double b) const { return rounded(sum + rounded(a * b)); }

  Matrix value(ValueId, const ir::RealConstant& n) const { return {1, 1, {n.value}}; }
  Matrix value(ValueId, const ir::IntegerConstant& n) const {
    return {1, 1, {static_cast<double>(n.value)}};
  }
  Matrix value(ValueId, const ir::SizeParameter& n) const {
    if (n.symbol != ir::kSymbolM) throw std::logic_error("sizes of graphs are constants");
    return {1, 1, {static_cast<double>(tokens_)}};
  }
  Matrix value(ValueId id, const ir::Index& n) const {
    Matrix result = empty(id);
    for (int64_t i = 0; i < result.rows; ++i)
      for (int64_t j = 0; j < result.columns; ++j)
        result.at(i, j) = static_cast<double>(n.row ? i : j);
    return result;
  }
  Matrix value(ValueId, const ir::InputValue& n) const {
    return inputs_.at(graph_.inputs[n.input].name);
  }
  Matrix value(ValueId id, const ir::Elementwise& n) const {
    Matrix result = empty(id);
    const Columns& columns = info(id).dims.columns;
    const int64_t step = columns.kind == Columns::Kind::group ? columns.size.numerator : 1;
    // Integers are exact, and so are an integer's products with floats: they are two floats.
    bool exact = info(id).number != ir::Number::real;
    for (int a = 0; a < 2 && n.op == Op::mul; ++a)
      exact = exact || info(n.args[a]).number != ir::Number::real;
    const double ulps = exact ? 0 : ir::info(n.op).ulps;
    for (int64_t i = 0; i < result.rows; ++i)
      for (int64_t j = 0; j < result.columns; ++j) {
        double args[3] = {0, 0, 0};
        for (int a = 0; a < ir::info(n.op).arity; ++a) args[a] = element(n.args[a], i, j * step);
        result.at(i, j) = rounded(apply(n.op, args[0], args[1], args[2]), ulps);
      }
    return result;
  }
  Matrix value(ValueId, const ir::Round& n) const { return get(n.arg); }
  Matrix value(ValueId id, const ir::Split& n) const {
    Matrix result = empty(id);
    const int64_t half = n.half.numerator;
    for (int64_t i = 0; i < result.rows; ++i)
      for (int64_t j = 0; j < result.columns; ++j)
        result.at(i, j) = element(n.arg, i, j / half * 2 * half + j % half + n.part * half);
    return result;
  }
  Matrix value(ValueId id, const ir::Join& n) const {
    Matrix result = empty(id);
    const int64_t half = n.half.numerator;
    for (int64_t i = 0; i < result.rows; ++i)
      for (int64_t j = 0; j < result.columns; ++j) {
        const int64_t from = j / (2 * half) * half + j % half;
        result.at(i, j) = element(j % (2 * half) < half ? n.a : n.b, i, from);
      }
    return result;
  }
  Matrix value(ValueId, const ir::Swap&) const { throw std::logic_error("not in graphs"); }

  Matrix value(ValueId id, const ir::Reduce& n) const {
    Matrix result = empty(id);
    const Dims& from = info(n.arg).dims;
    const int64_t rows = from.rows ? tokens_ : 1;
    const int64_t columns =
        from.columns.kind == Columns::Kind::none ? 1 : from.columns.width.numerator;
    std::vector<std::vector<double>> terms(result.values.size());
    const bool whole = from.columns.kind == Columns::Kind::all ||
                       from.columns.kind == Columns::Kind::none ||
                       n.kept.columns.kind != Columns::Kind::none;
    const int64_t walked = whole ? columns : count(from.columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < walked; ++j) {
        const int64_t at =
            (n.kept.rows ? i : 0) * result.columns + stored_column(n.kept.columns, j);
        terms[static_cast<size_t>(at)].push_back(whole ? element(n.arg, i, j)
                                                       : get(n.arg).at(from.rows ? i : 0, j));
      }
    for (size_t i = 0; i < terms.size(); ++i) result.values[i] = reduced(n.op, terms[i]);
    return result;
  }

  double reduced(ReduceOp op, const std::vector<double>& terms) const {
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    for (double term : terms) sum = rounded(sum + term), largest = std::max(largest, term);
    const double mean = rounded(sum / static_cast<double>(terms.size()));
    double squares = 0, exponentials = 0;
    for (double term : terms) {
      const double distance = rounded(term - mean);
      squares = accumulated(squares, distance, distance);
      exponentials = rounded(exponentials + rounded(std::exp(rounded(term - largest)), 2));
    }
    switch (op) {
      case ReduceOp::sum:
        return sum;
      case ReduceOp::mean:
      case ReduceOp::moments_mean:
        return mean;
      case ReduceOp::moments_var:
        return rounded(squares / static_cast<double>(terms.size()));
      case ReduceOp::logsumexp:
        return rounded(largest + rounded(std::log(exponentials), 2));
      default:
        throw std::logic_error("not in the graphs of these tests");
    }
  }

  // --- whole matrices

  Matrix value(ValueId id, const Whole& n) const {
    return std::visit([&](const auto& op) { return whole(id, op, n.args); }, n.op);
  }

  using Args = std::vector<ValueId>;

  Matrix whole(ValueId id, const ir::Product& n, const Args& args) const {
    Matrix result = empty(id);
    const size_t each = static_cast<size_t>(n.segments) + 1;
    for (size_t t = 0; t < args.size(); t += each) {
      int64_t first = 0;
      for (size_t s = 1; s < each; ++s) {
        const Matrix &a = get(args[t]), &w = get(args[t + s]);
        for (int64_t i = 0; i < tokens_; ++i)
          for (int64_t o = 0; o < w.rows; ++o)
            for (int64_t k = 0; k < w.columns; ++k)
              result.at(i, first + o) =
                  accumulated(result.at(i, first + o), a.at(i, k), w.at(o, k));
        first += w.rows;
      }
    }
    return result;
  }

  Matrix whole(ValueId id, const ir::InputGradient& n, const Args& args) const {
    Matrix result = empty(id);
    size_t at = 0;
    for (int segments : n.segments) {
      const Matrix& a = get(args[at++]);
      int64_t first = 0;
      for (int s = 0; s < segments; ++s, ++at) {
        const Matrix& w = get(args[at]);
        for (int64_t i = 0; i < tokens_; ++i)
          for (int64_t o = 0; o < w.rows; ++o)
            for (int64_t k = 0; k < w.columns; ++k)
              result.at(i, k) = accumulated(result.at(i, k), a.at(i, first + o), w.at(o, k));
        first += w.rows;
      }
    }
    return result;
  }

  Matrix whole(ValueId id, const ir::WeightGradient&, const Args& args) const {
    Matrix result = empty(id);
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t o = 0; o < result.rows; ++o)
        for (int64_t k = 0; k < result.columns; ++k)
          result.at(o, k) =
              accumulated(result.at(o, k), get(args[0]).at(i, o), get(args[1]).at(i, k));
    return result;
  }

  Matrix whole(ValueId id, const ir::Slice& n, const Args& args) const {
    Matrix result = empty(id);
    for (int64_t i = 0; i < result.rows; ++i)
      for (int64_t j = 0; j < n.width; ++j) result.at(i, j) = get(args[0]).at(i, n.first + j);
    return result;
  }

  Matrix whole(ValueId id, const ir::Concat&, const Args& args) const {
    Matrix result = empty(id);
    int64_t first = 0;
    for (ValueId arg : args) {
      for (int64_t i = 0; i < result.rows; ++i)
        for (int64_t j = 0; j < get(arg).columns; ++j) result.at(i, first + j) = get(arg).at(i, j);
      first += get(arg).columns;
    }
    return result;
  }

  Matrix whole(ValueId, const ir::Repeat&, const Args& args) const { return get(args[0]); }
  Matrix whole(ValueId, const ir::Period&, const Args& args) const { return get(args[0]); }

  Matrix whole(ValueId id, const ir::Embedding&, const Args& args) const {
    Matrix result = empty(id);
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t j = 0; j < result.columns; ++j)
        result.at(i, j) = get(args[1]).at(static_cast<int64_t>(get(args[0]).at(i, 0)), j);
    return result;
  }

  Matrix whole(ValueId id, const ir::EmbeddingGradient&, const Args& args) const {
    Matrix result = empty(id);
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t j = 0; j < result.columns; ++j) {
        double& sum = result.at(static_cast<int64_t>(get(args[0]).at(i, 0)), j);
        sum = rounded(sum + get(args[1]).at(i, j));
      }
    return result;
  }

  struct Scores {
    std::vector<double> p, slope;  // probabilities; derivative of the softcap
    double lse = 0;
    int64_t first = 0;
  };

  /// Row i of head h: the probabilities of the keys from `first` on.
  Scores scores(const ir::AttentionShape& shape, const Matrix& qkv, int64_t i, int64_t h) const {
    Scores result;
    const auto sequence =
        std::upper_bound(sequences_.begin(), sequences_.end(), i) - sequences_.begin() - 1;
    result.first = sequences_[static_cast<size_t>(sequence)];
    if (shape.window > 0) result.first = std::max(result.first, i - shape.window + 1);
    const int64_t dh = shape.head_size, g = h / (shape.query_heads / shape.key_heads);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = result.first; j <= i; ++j) {
      double s = 0;
      for (int64_t c = 0; c < dh; ++c)
        s = accumulated(s, qkv.at(i, h * dh + c), qkv.at(j, (shape.query_heads + g) * dh + c));
      s = rounded(s * shape.scale);
      double slope = 1;
      if (shape.softcap > 0) {
        const double t = rounded(std::tanh(rounded(s / shape.softcap)), 2);
        s = rounded(shape.softcap * t), slope = rounded(1 - rounded(t * t));
      }
      result.p.push_back(s), result.slope.push_back(slope);
      largest = std::max(largest, s);
    }
    for (double s : result.p) sum = rounded(sum + rounded(std::exp(rounded(s - largest)), 2));
    result.lse = rounded(largest + rounded(std::log(sum), 2));
    for (double& s : result.p) s = rounded(std::exp(rounded(s - result.lse)), 2);
    return result;
  }

  Matrix whole(ValueId id, const ir::Attention& n, const Args& args) const {
    Matrix result = empty(id);
    const Matrix& qkv = get(args[0]);
    const int64_t dh = n.shape.head_size, ratio = n.shape.query_heads / n.shape.key_heads;
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t h = 0; h < n.shape.query_heads; ++h) {
        const Scores s = scores(n.shape, qkv, i, h);
        if (n.part == 1) {
          result.at(i, h) = s.lse;
          continue;
        }
        for (size_t j = 0; j < s.p.size(); ++j)
          for (int64_t c = 0; c < dh; ++c)
            result.at(i, h * dh + c) =
                accumulated(result.at(i, h * dh + c), s.p[j],
                            qkv.at(s.first + static_cast<int64_t>(j),
                                   (n.shape.query_heads + n.shape.key_heads + h / ratio) * dh + c));
      }
    return result;
  }

  Matrix whole(ValueId id, const ir::AttentionGradient& n, const Args& args) const {
    Matrix result = empty(id);
    const Matrix &qkv = get(args[0]), &y = get(args[1]), &dy = get(args[3]);
    const int64_t dh = n.shape.head_size, ratio = n.shape.query_heads / n.shape.key_heads;
    const int64_t keys = n.shape.query_heads * dh, values = keys + n.shape.key_heads * dh;
    const auto add = [&](double& sum, double a, double b) { sum = accumulated(sum, a, b); };
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t h = 0; h < n.shape.query_heads; ++h) {
        const Scores s = scores(n.shape, qkv, i, h);
        const int64_t g = h / ratio;
        double delta = 0;
        for (int64_t c = 0; c < dh; ++c)
          delta = accumulated(delta, dy.at(i, h * dh + c), y.at(i, h * dh + c));
        for (size_t p = 0; p < s.p.size(); ++p) {
          const int64_t j = s.first + static_cast<int64_t>(p);
          double dp = 0;
          for (int64_t c = 0; c < dh; ++c) {
            dp = accumulated(dp, dy.at(i, h * dh + c), qkv.at(j, values + g * dh + c));
            add(result.at(j, values + g * dh + c), s.p[p], dy.at(i, h * dh + c));
          }
          const double inner = rounded(s.p[p] * rounded(dp - delta));
          const double ds = rounded(rounded(inner * s.slope[p]) * n.shape.scale);
          for (int64_t c = 0; c < dh; ++c) {
            add(result.at(i, h * dh + c), ds, qkv.at(j, keys + g * dh + c));
            add(result.at(j, keys + g * dh + c), ds, qkv.at(i, h * dh + c));
          }
        }
      }
    return result;
  }

  // --- composites

  Matrix whole(ValueId id, const ir::Composite& n, const Args& args) const {
    using Kind = ir::Composite::Kind;
    const Matrix& x = get(args[0]);
    Matrix result = empty(id);
    const auto weight = [&](int64_t j) { return get(args[1]).at(0, j) + (n.unit_offset ? 1 : 0); };
    for (int64_t i = 0; i < tokens_; ++i) {
      if (n.kind == Kind::rms_norm || n.kind == Kind::head_norm) {
        const int64_t size = n.kind == Kind::rms_norm ? x.columns : n.head_size;
        for (int64_t first = 0; first < x.columns; first += size) {
          double squares = 0;
          for (int64_t j = 0; j < size; ++j) squares += x.at(i, first + j) * x.at(i, first + j);
          const double r = 1 / std::sqrt(squares / static_cast<double>(size) + n.eps);
          for (int64_t j = 0; j < size; ++j)
            result.at(i, first + j) = x.at(i, first + j) * r * weight(j);
        }
      } else if (n.kind == Kind::layer_norm) {
        double mean = 0, variance = 0;
        for (int64_t j = 0; j < x.columns; ++j) mean += x.at(i, j) / static_cast<double>(x.columns);
        for (int64_t j = 0; j < x.columns; ++j)
          variance += (x.at(i, j) - mean) * (x.at(i, j) - mean) / static_cast<double>(x.columns);
        for (int64_t j = 0; j < x.columns; ++j)
          result.at(i, j) =
              (x.at(i, j) - mean) / std::sqrt(variance + n.eps) * weight(j) + get(args[2]).at(0, j);
      } else if (n.kind == Kind::swiglu || n.kind == Kind::geglu) {
        for (int64_t j = 0; j < x.columns; ++j) {
          const double v = x.at(i, j), up = get(args[1]).at(i, j);
          const double inner = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
          result.at(i, j) = up * (n.kind == Kind::swiglu ? v / (1 + std::exp(-v))
                                                         : v / 2 * (1 + std::tanh(inner)));
        }
      } else if (n.kind == Kind::rope) {
        const int64_t half = n.head_size / 2;
        for (int64_t first = 0; first < x.columns; first += n.head_size)
          for (int64_t j = 0; j < half; ++j) {
            const double angle = get(args[1]).at(i, 0) * get(args[2]).at(0, j);
            const double a = x.at(i, first + j), b = x.at(i, first + half + j);
            result.at(i, first + j) = n.scale * (a * std::cos(angle) - b * std::sin(angle));
            result.at(i, first + half + j) = n.scale * (b * std::cos(angle) + a * std::sin(angle));
          }
      } else {
        const double label = get(args[1]).at(i, 0);
        if (label == static_cast<double>(n.ignored)) continue;
        double largest = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
        for (int64_t j = 0; j < x.columns; ++j) largest = std::max(largest, x.at(i, j));
        for (int64_t j = 0; j < x.columns; ++j) {
          sum += std::exp(x.at(i, j) - largest);
          mean += x.at(i, j) / static_cast<double>(x.columns);
        }
        const double lse = largest + std::log(sum);
        const double nll = lse - x.at(i, static_cast<int64_t>(label));
        result.at(i, 0) = n.kind == Kind::z_loss
                              ? lse * lse
                              : (1 - n.smoothing) * nll + n.smoothing * (lse - mean);
      }
    }
    return result;
  }

  const ir::Program& graph_;
  const Matrices& inputs_;
  const int64_t tokens_;
  std::vector<int64_t> sequences_;
  std::mt19937* const rounding_;
  std::vector<Matrix> values_;
};

}  // namespace

Matrix shaped(const ir::Input& input, int64_t tokens) {
  return make(input.weight_rows ? input.weight_rows
              : input.dims.rows ? tokens
                                : 1,
              count(input.dims.columns));
}

Matrices evaluate(const ir::Program& graph, const Matrices& inputs, int64_t tokens,
                  const std::vector<int64_t>& sequences, std::mt19937* rounding) {
  return Evaluation(graph, inputs, tokens, sequences, rounding).run();
}

}  // namespace coda::test

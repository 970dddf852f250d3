// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "reference/internal.h"

namespace coda::reference {
namespace {

using ir::Columns;
using ir::ValueId;
using Kind = ir::Columns::Kind;

ir::Dims full_width(const ir::Dims& dims) {
  return {dims.rows, {Kind::all, dims.columns.width, ir::Size{}}};
}

class Evaluator {
 public:
  Evaluator(const ir::Program& program, std::span<const int64_t> symbols,
            std::span<const Dense> inputs, const Options& options)
      : program_(program),
        symbols_(symbols),
        inputs_(inputs),
        options_(options),
        nearest_kink_(options.nearest_kink),
        values_(program.nodes.size()),
        products_(program.nodes.size()),
        uses_(program.nodes.size()),
        is_angle_(program.nodes.size()),
        moving_(program.nodes.size()) {
    for (const ir::Output& output : program.outputs) ++uses_[output.value];
    for (size_t i = program.nodes.size(); i-- > 0;) {
      if (uses_[i] == 0) continue;
      for (ValueId id : ir::operands(program.nodes[i])) ++uses_[id];
      if (const auto* e = std::get_if<ir::Elementwise>(&program.nodes[i]))
        if (e->op == ir::Op::sin || e->op == ir::Op::cos) is_angle_[e->args[0]] = true;
    }
  }

  std::vector<Dense> run() {
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const ValueId id = static_cast<ValueId>(i);
      if (uses_[id] == 0) continue;
      options_.nearest_kink = find_moving(id) ? nearest_kink_ : nullptr;
      values_[id] =
          std::visit([&](const auto& node) { return value(id, node); }, program_.nodes[id]);
      for (ValueId operand : ir::operands(program_.nodes[id])) release(operand);
    }
    std::vector<Dense> outputs;
    for (const ir::Output& output : program_.outputs)
      outputs.push_back(expand(output.value, output.dims));
    return outputs;
  }

 private:
  const ir::Dims& dims(ValueId id) const { return program_.info[id].dims; }
  bool integer(ValueId id) const { return is_integer(program_.info[id]); }
  Dense expand(ValueId id, const ir::Dims& to) const {
    return broadcast(values_[id], dims(id), to, symbols_);
  }
  int64_t size(const ir::Size& s, std::string_view where) const {
    const int64_t result = ir::evaluate(s, symbols_, where);
    if (result <= 0) throw Error(ErrorKind::shape, where, "a size above 0", std::to_string(result));
    return result;
  }

  /// Whether the operands of a node follow float inputs. Integers and masks made of them do not:
  /// they are constant but for jumps, which are kinks where they are made.
  bool find_moving(ValueId id) {
    const ir::Node& node = program_.nodes[id];
    bool moving = std::holds_alternative<ir::InputValue>(node);
    for (ValueId operand : ir::operands(node)) moving = moving || moving_[operand];
    moving_[id] = moving && !integer(id);
    return moving;
  }

  /// The memory of a value goes with its last user.
  void release(ValueId id) {
    if (--uses_[id] == 0) values_[id] = {}, products_[id] = {};
  }

  Dense value(ValueId, const ir::Whole& node) const {
    throw Error(ErrorKind::internal, "reference", "a program", ir::name_of(node.op));
  }
  Dense value(ValueId, const ir::RealConstant& node) const {
    Dense result = make({1, 1}, false);
    const double kept = static_cast<float>(node.value);
    result.value[0] = options_.mode == Mode::exact ? node.value : kept;
    if (options_.mode == Mode::contract && kept != node.value)
      result.error = {std::fabs(kept - node.value)};
    return result;
  }

  Dense one_integer(int64_t value) const {
    Dense result = make({1, 1}, true);
    result.integer[0] = value;
    return result;
  }
  Dense value(ValueId, const ir::IntegerConstant& node) const { return one_integer(node.value); }
  Dense value(ValueId, const ir::SizeParameter& node) const {
    return one_integer(symbols_[node.symbol]);
  }

  Dense value(ValueId id, const ir::Index& node) const {
    Dense result = make(extent(dims(id), symbols_), true);
    for (int64_t i = 0; i < (node.row ? result.rows : result.columns); ++i) result.integer[i] = i;
    return result;
  }

  Dense value(ValueId id, const ir::InputValue& node) const {
    const Dense& input = inputs_[node.input];
    const Extent want = extent(dims(id), symbols_);
    if (input.rows != want.rows || input.columns != want.columns)
      throw Error(ErrorKind::shape, "input '" + program_.inputs[node.input].name + "'",
                  std::to_string(want.rows) + " x " + std::to_string(want.columns),
                  std::to_string(input.rows) + " x " + std::to_string(input.columns));
    return input;
  }

  Dense value(ValueId id, const ir::Elementwise& node) {
    const bool sine = node.op == ir::Op::sin || node.op == ir::Op::cos;
    if (sine && products_[node.args[0]].present)
      return sine_of_product(node.op, products_[node.args[0]].value, options_);
    std::array<Dense, 3> expanded;
    std::array<const Dense*, 3> args{};
    for (int i = 0; i < ir::info(node.op).arity; ++i) {
      const ValueId arg = node.args[i];
      args[i] = &values_[arg];
      if (dims(arg) == dims(id)) continue;
      expanded[i] = expand(arg, dims(id));
      args[i] = &expanded[i];
    }
    if (node.op == ir::Op::mul && is_angle_[id] && integer(node.args[0]) != integer(node.args[1])) {
      const int i = integer(node.args[0]) ? 0 : 1;
      products_[id] = {true, product(*args[i], *args[1 - i], options_)};
    }
    return elementwise(node.op, args, integer(id), options_);
  }

  Dense value(ValueId, const ir::Round& node) const {
    Dense x = to_real(values_[node.arg], options_.mode);
    if (options_.mode == Mode::exact) return x;
    return round(std::move(x), node.type.generic ? options_.type : node.type.dtype);
  }

  Dense value(ValueId id, const ir::Split& node) const {
    const Dense x = expand(node.arg, full_width(dims(node.arg)));
    const int64_t half = size(node.half, "split");
    require_multiple("split", x.columns, 2 * half);
    std::vector<int64_t> from(static_cast<size_t>(extent(dims(id), symbols_).columns));
    for (int64_t j = 0; j < std::ssize(from); ++j)
      from[j] = j / half * 2 * half + node.part * half + j % half;
    return gather(x, from);
  }

  Dense value(ValueId id, const ir::Join& node) const {
    const int64_t half = size(node.half, "join");
    const Extent whole = extent(dims(id), symbols_);
    require_multiple("join", whole.columns, 2 * half);
    const bool first = dims(node.a).columns.kind != Kind::none;
    ir::Dims part = full_width(dims(first ? node.a : node.b));
    part.rows = dims(id).rows;
    Dense a = expand(node.a, part), b = expand(node.b, part);
    if (!integer(id))
      a = to_real(std::move(a), options_.mode), b = to_real(std::move(b), options_.mode);
    Dense result = make(whole, integer(id));
    const bool exact = a.error.empty() && b.error.empty();
    if (!exact) result.error.resize(static_cast<size_t>(result.size()));
    for (int64_t r = 0; r < whole.rows; ++r)
      for (int64_t j = 0; j < whole.columns; ++j) {
        const Dense& x = j / half % 2 == 0 ? a : b;
        const size_t at = static_cast<size_t>(r * whole.columns + j);
        const size_t from = static_cast<size_t>(r * x.columns + j / (2 * half) * half + j % half);
        if (integer(id))
          result.integer[at] = x.integer[from];
        else
          result.value[at] = x.value[from];
        if (!exact) result.error[at] = error_at(x, from);
      }
    return result;
  }

  Dense value(ValueId id, const ir::Swap& node) const {
    const Dense x = expand(node.arg, dims(id));
    const int64_t half = size(node.half, "swap"), group = size(node.group, "swap");
    require_multiple("swap", x.columns, group);
    if (2 * half > group)
      throw Error(ErrorKind::shape, "swap", "groups of at least two halves", std::to_string(group));
    std::vector<int64_t> from(static_cast<size_t>(x.columns));
    for (int64_t j = 0; j < x.columns; ++j) {
      const int64_t place = j % group;
      from[j] = place < half ? j + half : place < 2 * half ? j - half : j;
    }
    return gather(x, from);
  }

  Dense value(ValueId, const ir::Reduce& node) const {
    return reduce(node, values_[node.arg], dims(node.arg), integer(node.arg), symbols_, options_);
  }

  static void require_multiple(std::string_view where, int64_t columns, int64_t size) {
    if (columns % size != 0)
      throw Error(ErrorKind::shape, where, "columns in multiples of " + std::to_string(size),
                  std::to_string(columns));
  }

  struct Product {
    bool present = false;
    Dense value;
  };

  const ir::Program& program_;
  std::span<const int64_t> symbols_;
  std::span<const Dense> inputs_;
  Options options_;
  double* nearest_kink_;
  std::vector<Dense> values_;
  std::vector<Product> products_;  // of an integer and a float, where sin or cos takes it
  std::vector<int> uses_;
  std::vector<bool> is_angle_;
  std::vector<bool> moving_;  // follows float inputs, so that its kinks matter to a derivative
};

}  // namespace

Extent extent(const ir::Dims& dims, std::span<const int64_t> symbols) {
  const Columns& columns = dims.columns;
  Extent result{dims.rows ? symbols[ir::kSymbolM] : 1, 1};
  if (columns.kind == Kind::none) return result;
  const int64_t width = ir::evaluate(columns.width, symbols, "a width");
  result.columns = width;
  if (columns.kind == Kind::all) return result;
  const int64_t size = ir::evaluate(columns.size, symbols, "a group");
  if (size <= 0) throw Error(ErrorKind::shape, "a group", "a size above 0", std::to_string(size));
  if (columns.kind == Kind::repeat) {
    result.columns = size;
    return result;
  }
  if (width % size != 0)
    throw Error(ErrorKind::shape, "a group", "columns in multiples of " + std::to_string(size),
                std::to_string(width));
  result.columns = width / size;
  return result;
}

std::vector<Dense> evaluate(const ir::Program& program, std::span<const int64_t> symbols,
                            std::span<const Dense> inputs, const Options& options) {
  return Evaluator(program, symbols, inputs, options).run();
}

Dense make(Extent extent, bool integer) {
  Dense result{extent.rows, extent.columns, {}, {}, {}};
  const size_t count = static_cast<size_t>(result.size());
  if (integer)
    result.integer.resize(count);
  else
    result.value.resize(count);
  return result;
}

void trim(Dense& x) {
  if (std::all_of(x.error.begin(), x.error.end(), [](double e) { return e == 0; })) x.error.clear();
}

Dense gather(const Dense& x, const std::vector<int64_t>& columns) {
  Dense result = make({x.rows, std::ssize(columns)}, x.value.empty());
  if (!x.error.empty()) result.error.resize(static_cast<size_t>(result.size()));
  size_t at = 0;
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c : columns) {
      const size_t from = static_cast<size_t>(r * x.columns + c);
      if (x.value.empty())
        result.integer[at] = x.integer[from];
      else
        result.value[at] = x.value[from];
      if (!x.error.empty()) result.error[at] = x.error[from];
      ++at;
    }
  return result;
}

Dense broadcast(const Dense& x, const ir::Dims& from, const ir::Dims& to,
                std::span<const int64_t> symbols) {
  if (from == to) return x;
  const Extent want = extent(to, symbols);
  std::vector<int64_t> columns(static_cast<size_t>(want.columns), 0);
  if (from.columns == to.columns) {
    for (int64_t c = 0; c < want.columns; ++c) columns[c] = c;
  } else if (from.columns.kind == Kind::group || from.columns.kind == Kind::repeat) {
    const int64_t size = ir::evaluate(from.columns.size, symbols, "a group");
    for (int64_t c = 0; c < want.columns; ++c)
      columns[c] = from.columns.kind == Kind::group ? c / size : c % size;
  }
  Dense wide = gather(x, columns);
  if (from.rows == to.rows) return wide;
  Dense result = make(want, wide.value.empty());
  const auto repeat = [&](auto& target, const auto& source) {
    target.resize(source.size() * static_cast<size_t>(want.rows));
    for (int64_t r = 0; r < want.rows; ++r)
      std::copy(source.begin(), source.end(), target.begin() + r * std::ssize(source));
  };
  repeat(result.value, wide.value);
  repeat(result.integer, wide.integer);
  repeat(result.error, wide.error);
  return result;
}

}  // namespace coda::reference

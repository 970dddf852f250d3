// SPDX-License-Identifier: Apache-2.0
#include "check/draw.h"

#include <coda/error.h>

#include <algorithm>

#include "call/divisibility.h"

namespace coda::check {
namespace {

using ir::Op;
using ir::ValueId;

/// Walks from the users of values back to the inputs.
class Uses {
 public:
  explicit Uses(const ir::Program& program)
      : program_(program),
        positive_(program.nodes.size()),
        column_(program.nodes.size()),
        has_column_(program.nodes.size()) {
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      const auto* index = std::get_if<ir::Index>(&program.nodes[i]);
      has_column_[i] = index && !index->row;
      for (ValueId id : ir::operands(program.nodes[i]))
        if (is_integer(static_cast<ValueId>(i)) && has_column_[id]) has_column_[i] = true;
    }
    for (size_t i = program.nodes.size(); i-- > 0;) visit(static_cast<ValueId>(i));
  }

  std::vector<Source> sources() const {
    std::vector<Source> result(program_.inputs.size(), Source::normal);
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const auto* load = std::get_if<ir::InputValue>(&program_.nodes[i]);
      if (!load) continue;
      const ir::Input& input = program_.inputs[load->input];
      Source& source = result[load->input];
      if (!is_integer(static_cast<ValueId>(i)))
        source =
            positive_[i] && input.kind != ir::Input::Kind::accumulator ? Source::positive : source;
      else if (input.type.dtype == DType::u8)
        source = Source::byte;
      else
        source = column_[i] ? Source::column : Source::index;
    }
    return result;
  }

 private:
  bool is_integer(ValueId id) const { return program_.info[id].number != ir::Number::real; }

  void visit(ValueId id) {
    const ir::Node& node = program_.nodes[id];
    if (const auto* e = std::get_if<ir::Elementwise>(&node)) return visit(id, *e);
    const bool passes = !std::holds_alternative<ir::Reduce>(node) ||
                        std::get<ir::Reduce>(node).op != ir::ReduceOp::moments_var;
    for (ValueId operand : ir::operands(node)) {
      if (positive_[id] && passes) positive_[operand] = true;
      if (column_[id]) column_[operand] = true;
    }
  }

  void visit(ValueId id, const ir::Elementwise& node) {
    const auto& [a, b, c] = node.args;
    const auto need_positive = [&](ValueId operand) { positive_[operand] = true; };
    switch (node.op) {
      case Op::sqrt:
      case Op::rsqrt:
      case Op::log:
        need_positive(a);
        break;
      case Op::div:
        need_positive(b);
        if (positive_[id]) need_positive(a);
        break;
      case Op::mul:
        if (positive_[id] && a != b) need_positive(a), need_positive(b);
        break;
      case Op::sub:
        if (positive_[id]) need_positive(a);
        break;
      case Op::add:
      case Op::min:
      case Op::max:
        if (positive_[id]) need_positive(a), need_positive(b);
        break;
      case Op::where:
        if (positive_[id]) need_positive(b), need_positive(c);
        break;
      case Op::clamp:
        if (positive_[id]) need_positive(a);
        break;
      default:
        break;
    }
    const ir::OpInfo& info = ir::info(node.op);
    if (info.kind == ir::OpKind::compare) {
      if (has_column_[a]) column_[b] = true;
      if (has_column_[b]) column_[a] = true;
    } else if (column_[id] && is_integer(id)) {
      for (int i = 0; i < info.arity; ++i) column_[node.args[i]] = true;
    }
  }

  const ir::Program& program_;
  std::vector<bool> positive_, column_, has_column_;
};

/// Symbols that stand in a size of columns.
std::vector<bool> structural_symbols(const ir::Program& program) {
  std::vector<bool> result(program.symbols.size());
  const auto add = [&](const ir::Size& size) {
    for (const auto& power : size.powers) result[power.first] = true;
  };
  const auto add_dims = [&](const ir::Dims& dims) {
    using Kind = ir::Columns::Kind;
    if (dims.columns.kind == Kind::group || dims.columns.kind == Kind::repeat)
      add(dims.columns.size);
  };
  for (const ir::Input& input : program.inputs) add_dims(input.dims);
  for (const ir::Output& output : program.outputs) add_dims(output.dims);
  for (const ir::Node& node : program.nodes)
    std::visit(ir::Overloaded{[](const auto&) {}, [&](const ir::Split& n) { add(n.half); },
                              [&](const ir::Join& n) { add(n.half); },
                              [&](const ir::Swap& n) { add(n.half), add(n.group); },
                              [&](const ir::Reduce& n) { add_dims(n.kept); }},
               node);
  return result;
}

}  // namespace

std::vector<Source> sources_of(const ir::Program& program) { return Uses(program).sources(); }

double draw_real(Source source, Random& random) {
  const double value = random.normal();
  return source == Source::positive ? std::fabs(value) + 0.1 : value;
}

int64_t draw_integer(Source source, int64_t n, Random& random) {
  if (source == Source::column) return random.below(n);
  if (source == Source::byte) return random.chance(0.8) ? random.below(2) : random.below(256);
  return random.below(4096);
}

std::vector<int64_t> draw_sizes(const ir::Program& program,
                                const std::map<std::string, int64_t>& given, int64_t n,
                                uint64_t seed) {
  const std::vector<bool> structural = structural_symbols(program);
  std::vector<int64_t> symbols(program.symbols.size());
  for (size_t i = ir::kFirstParameter; i < symbols.size(); ++i) {
    const std::string& name = program.symbols[i];
    const auto at = given.find(name);
    symbols[i] = at != given.end() ? at->second
                 : structural[i]   ? 8
                                   : Random(seed, name).below(n + 1);
  }
  return symbols;
}

int64_t column_unit(const ir::Program& program, std::vector<int64_t> symbols) {
  constexpr int64_t kLimit = 1 << 16;
  symbols[ir::kSymbolM] = 1;
  for (int64_t n = 1; n <= kLimit; ++n) {
    symbols[ir::kSymbolN] = n;
    try {
      check_units(program, symbols);
      return n;
    } catch (const Error&) {
      if (n == kLimit) throw;
    }
  }
  return 1;
}

std::vector<reference::Dense> draw_dense(const ir::Program& program,
                                         std::span<const int64_t> symbols, uint64_t seed) {
  const std::vector<Source> sources = sources_of(program);
  std::vector<reference::Dense> result;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ir::Input& input = program.inputs[i];
    Random random(seed, input.name);
    const auto [rows, columns] = reference::extent(input.dims, symbols);
    reference::Dense x{rows, columns, {}, {}, {}};
    const bool integer = input.kind != ir::Input::Kind::accumulator && !input.type.generic &&
                         !is_float(input.type.dtype);
    for (int64_t k = 0; k < rows * columns; ++k) {
      if (integer)
        x.integer.push_back(draw_integer(sources[i], symbols[ir::kSymbolN], random));
      else
        x.value.push_back(draw_real(sources[i], random));
    }
    result.push_back(std::move(x));
  }
  return result;
}

}  // namespace coda::check

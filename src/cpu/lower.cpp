// SPDX-License-Identifier: Apache-2.0
#include "cpu/lower.h"

#include <coda/error.h>

#include <algorithm>
#include <map>

#include "cpu/slots.h"

namespace coda::cpu {
namespace {

using Kind = Instruction::Kind;
using Columns = ir::Columns::Kind;

template <class T>
int at(T value) {
  return static_cast<int>(value);
}

Family family_of(ir::ReduceOp op) {
  switch (op) {
    case ir::ReduceOp::sum:
    case ir::ReduceOp::mean:
      return Family::sum;
    case ir::ReduceOp::max:
      return Family::max;
    case ir::ReduceOp::min:
      return Family::min;
    case ir::ReduceOp::logsumexp:
      return Family::logsumexp;
    case ir::ReduceOp::argmax:
      return Family::argmax;
    case ir::ReduceOp::moments_mean:
    case ir::ReduceOp::moments_var:
      return Family::moments;
  }
  return Family::sum;
}

Finish finish_of(ir::ReduceOp op) {
  if (op == ir::ReduceOp::mean || op == ir::ReduceOp::moments_mean) return Finish::mean;
  return op == ir::ReduceOp::moments_var ? Finish::variance : Finish::value;
}

/// What the lowerings of one call share.
struct Context {
  const ir::Program& program;
  const Instance& instance;
  const BoundCall& call;
  const Kernels& kernels;
  std::map<ir::ValueId, int> completed;  // of a reduction's node

  Extent extent(const ir::Dims& dims) const { return extent_of(dims, call.symbols); }
  int64_t size(const ir::Size& size) const { return evaluate(size, call.symbols, "a size"); }
};

class Lowering {
 public:
  Lowering(const Context& context, const Lowered& lowered) : context_(context), lowered_(lowered) {}

  /// The instruction that makes a node's value.
  int value(ir::ValueId id) {
    const auto known = values_.find(id);
    if (known != values_.end()) return known->second;
    const int made =
        std::visit([&](const auto& node) { return lower(id, node); }, context_.program.nodes[id]);
    return values_[id] = made;
  }

  void store(int output) {
    const ir::Output& declared = context_.program.outputs[output];
    const Extent extent = context_.extent(declared.dims);
    int v = value(declared.value);
    if (code(v).lane == Lane::mask) v = as(v, Lane::i64);
    v = fit(v, extent);
    Instruction store{Kind::store};
    store.lane = code(v).lane, store.extent = extent, store.source = output;
    add(store, {v});
  }

  /// The argument of a reduction: its lanes, and every column where what is kept asks for that.
  int reduce_argument(const ir::Reduce& node) {
    int v = value(node.arg);
    const Family family = family_of(node.op);
    const bool exact =
        family != Family::logsumexp && family != Family::moments && node.op != ir::ReduceOp::mean;
    v = as(v, exact && code(v).lane != Lane::f32 ? Lane::i64 : Lane::f32);
    const ir::Columns& have = context_.program.info[node.arg].dims.columns;
    const bool regroup =
        (node.kept.columns.kind == Columns::group || node.kept.columns.kind == Columns::repeat) &&
        !(have == node.kept.columns);
    return regroup ? expand(v) : v;
  }

  void reduce(int reduction, int argument) {
    Instruction reduce{Kind::reduce};
    reduce.lane = code(argument).lane, reduce.extent = code(argument).extent;
    reduce.source = reduction;
    add(reduce, {argument});
  }

  const Instruction& code(int instruction) const { return tape_.code[instruction]; }
  Tape finish(const Grid& grid) {
    place(tape_, grid, context_.kernels);
    return std::move(tape_);
  }

 private:
  int add(Instruction instruction, std::initializer_list<int> arguments = {}) {
    for (int argument : arguments) instruction.arguments[instruction.argument_count++] = argument;
    tape_.code.push_back(instruction);
    return static_cast<int>(tape_.code.size()) - 1;
  }

  /// Which operands are vectors: along the columns of the result, or along its rows if it has none.
  int vectors(const Extent& result, std::initializer_list<int> arguments) const {
    int bits = 0, bit = 1;
    for (int argument : arguments) {
      const Extent& extent = code(argument).extent;
      if (result.kind == Columns::none ? extent.rows : extent.kind != Columns::none) bits |= bit;
      bit *= 2;
    }
    return bits;
  }

  int pointwise(BlockKernel kernel, Lane lane, const Extent& extent,
                std::initializer_list<int> arguments) {
    Instruction instruction{Kind::pointwise, lane, extent};
    instruction.kernel = kernel;
    return add(instruction, arguments);
  }

  int columnwise(BlockKernel kernel, Lane lane, const Extent& extent, int64_t half, int64_t group,
                 std::initializer_list<int> arguments) {
    Instruction instruction{Kind::columnwise, lane, extent};
    instruction.kernel = kernel, instruction.half = half, instruction.group = group;
    return add(instruction, arguments);
  }

  int as(int v, Lane lane) {
    if (code(v).lane == lane) return v;
    const auto [known, fresh] = converted_.try_emplace({v, lane}, -1);
    if (fresh)
      known->second = pointwise(context_.kernels.convert[at(code(v).lane)][at(lane)], lane,
                                code(v).extent, {v});
    return known->second;
  }

  /// One element per column, for groups and periods.
  int expand(int v) {
    Extent extent = code(v).extent;
    if (extent.kind != Columns::group && extent.kind != Columns::repeat) return v;
    const auto [known, fresh] = expanded_.try_emplace(v, -1);
    if (fresh) {
      const bool period = extent.kind == Columns::repeat, wide = code(v).lane == Lane::i64;
      const int64_t size = extent.size;
      extent.kind = Columns::all, extent.size = 0;
      known->second = columnwise(
          period ? context_.kernels.expand_period[wide] : context_.kernels.expand_group[wide],
          code(v).lane, extent, 0, size, {v});
      tape_.code.back().period = period;
    }
    return known->second;
  }

  /// v, expanded where its columns are not those of `extent`.
  int fit(int v, const Extent& extent) {
    const Extent& have = code(v).extent;
    return have.kind == extent.kind && have.size == extent.size ? v : expand(v);
  }

  int constant(float value) {
    Instruction instruction{Kind::constant};
    instruction.real = value;
    return add(instruction);
  }
  int constant(int64_t value) {
    Instruction instruction{Kind::constant, Lane::i64};
    instruction.integer = value;
    return add(instruction);
  }

  int lower(ir::ValueId, const ir::Whole& n) {
    throw Error(ErrorKind::internal, "cpu", "a program", ir::name_of(n.op));
  }
  int lower(ir::ValueId, const ir::RealConstant& n) {
    return constant(static_cast<float>(n.value));
  }
  int lower(ir::ValueId, const ir::IntegerConstant& n) { return constant(n.value); }
  int lower(ir::ValueId, const ir::SizeParameter& n) {
    return constant(context_.call.symbols[n.symbol]);
  }

  int lower(ir::ValueId id, const ir::Index& n) {
    Instruction instruction{Kind::index, Lane::i64,
                            context_.extent(context_.program.info[id].dims)};
    instruction.along_rows = n.row;
    return add(instruction);
  }

  int lower(ir::ValueId id, const ir::InputValue& n) {
    const ir::Input& input = context_.program.inputs[n.input];
    const bool real = context_.program.info[id].number == ir::Number::real;
    if (input.kind == ir::Input::Kind::scalar) {
      const double value = context_.call.scalars[n.input];
      return real ? constant(static_cast<float>(value)) : constant(static_cast<int64_t>(value));
    }
    const bool accumulator = input.kind == ir::Input::Kind::accumulator;
    Instruction instruction{accumulator ? Kind::accumulator : Kind::load,
                            real ? Lane::f32 : Lane::i64, context_.extent(input.dims)};
    instruction.source = n.input;
    if (accumulator) instruction.arena = Arena::accumulator;
    return add(instruction);
  }

  int lower(ir::ValueId id, const ir::Elementwise& n) {
    const Extent extent = context_.extent(context_.program.info[id].dims);
    if ((n.op == ir::Op::sin || n.op == ir::Op::cos) && is_angle(n.args[0]))
      return lower_angle(n, extent);
    const ir::OpInfo& op = info(n.op);
    bool integer = op.kind != ir::OpKind::real;
    for (int i = op.kind == ir::OpKind::select; i < op.arity; ++i)
      integer = integer && context_.program.info[n.args[i]].number != ir::Number::real;
    const Lane lane = integer ? Lane::i64 : Lane::f32;
    int args[3] = {-1, -1, -1};
    for (int i = 0; i < op.arity; ++i) {
      const bool condition = op.kind == ir::OpKind::select && i == 0;
      args[i] = fit(as(value(n.args[i]), condition ? Lane::mask : lane), extent);
    }
    const Lane result = op.kind == ir::OpKind::compare ? Lane::mask : lane;
    if (n.op == ir::Op::sin || n.op == ir::Op::cos) {
      const auto& kernel = n.op == ir::Op::sin ? context_.kernels.sine : context_.kernels.cosine;
      return pointwise(kernel[vectors(extent, {args[0]})], result, extent, {args[0]});
    }
    const auto& kernel = context_.kernels.elementwise[at(n.op)][integer];
    if (op.arity == 1)
      return pointwise(kernel[vectors(extent, {args[0]})], result, extent, {args[0]});
    if (op.arity == 2)
      return pointwise(kernel[vectors(extent, {args[0], args[1]})], result, extent,
                       {args[0], args[1]});
    return pointwise(kernel[vectors(extent, {args[0], args[1], args[2]})], result, extent,
                     {args[0], args[1], args[2]});
  }

  /// Whether a value is the product of an integer and a float, which sin and cos see unrounded.
  bool is_angle(ir::ValueId id) const {
    const auto* product = std::get_if<ir::Elementwise>(&context_.program.nodes[id]);
    if (product == nullptr || product->op != ir::Op::mul) return false;
    const auto number = [&](int i) { return context_.program.info[product->args[i]].number; };
    return (number(0) == ir::Number::real) != (number(1) == ir::Number::real);
  }

  int lower_angle(const ir::Elementwise& n, const Extent& extent) {
    const auto& product = std::get<ir::Elementwise>(context_.program.nodes[n.args[0]]);
    const bool swapped = context_.program.info[product.args[0]].number == ir::Number::real;
    const int integer = fit(as(value(product.args[swapped]), Lane::i64), extent);
    const int real = fit(value(product.args[!swapped]), extent);
    const auto& kernel =
        n.op == ir::Op::sin ? context_.kernels.sine_product : context_.kernels.cosine_product;
    return pointwise(kernel[vectors(extent, {integer, real})], Lane::f32, extent, {integer, real});
  }

  int lower(ir::ValueId, const ir::Round& n) {
    const int v = as(value(n.arg), Lane::f32);
    const BlockKernel kernel = context_.kernels.round[at(storage(n.type, context_.instance))];
    return kernel ? pointwise(kernel, Lane::f32, code(v).extent, {v}) : v;
  }

  int lower(ir::ValueId id, const ir::Split& n) {
    const int v = expand(value(n.arg));
    return columnwise(context_.kernels.split[code(v).lane == Lane::i64][n.part], code(v).lane,
                      context_.extent(context_.program.info[id].dims), context_.size(n.half), 0,
                      {v});
  }

  int lower(ir::ValueId id, const ir::Join& n) {
    const bool real = context_.program.info[id].number == ir::Number::real;
    const Lane lane = real ? Lane::f32 : Lane::i64;
    const int a = expand(as(value(n.a), lane)), b = expand(as(value(n.b), lane));
    const int bits =
        (code(a).extent.kind != Columns::none) + 2 * (code(b).extent.kind != Columns::none);
    return columnwise(context_.kernels.join[!real][bits], lane,
                      context_.extent(context_.program.info[id].dims), context_.size(n.half), 0,
                      {a, b});
  }

  int lower(ir::ValueId id, const ir::Swap& n) {
    const int v = expand(value(n.arg));
    return columnwise(context_.kernels.swap[code(v).lane == Lane::i64], code(v).lane,
                      context_.extent(context_.program.info[id].dims), context_.size(n.half),
                      context_.size(n.group), {v});
  }

  int lower(ir::ValueId id, const ir::Reduce& n) {
    const ir::ValueInfo& info = context_.program.info[id];
    if (info.stage == ir::Stage::complete) {
      const int completed = context_.completed.at(id);
      const Completed& result = lowered_.completed[completed];
      Instruction load{Kind::load, result.lane, lowered_.reductions[result.reduction].kept};
      load.source = completed, load.completed = true;
      return fit(add(load), context_.extent(info.dims));
    }
    const int v = reduce_argument(n);
    Instruction reduce{Kind::group_reduce, Lane::f32, context_.extent(info.dims)};
    if (info.number != ir::Number::real) reduce.lane = Lane::i64;
    reduce.family = family_of(n.op), reduce.finish = finish_of(n.op);
    reduce.group = context_.size(n.kept.columns.size);
    return add(reduce, {v});
  }

  const Context& context_;
  const Lowered& lowered_;
  Tape tape_;
  std::map<ir::ValueId, int> values_;
  std::map<std::pair<int, Lane>, int> converted_;
  std::map<int, int> expanded_;
};

/// The reduction of a node whose argument is instruction `argument` of the main tape.
Reduction make_reduction(const Context& context, const ir::Reduce& node, int argument,
                         const Instruction& code, const Grid& grid) {
  Reduction r{};
  r.family = family_of(node.op);
  r.integer = code.lane == Lane::i64;
  r.argument = argument;
  r.from = code.extent;
  r.kept.rows = node.kept.rows && r.from.rows;
  r.kept.halves = r.from.halves;
  const Extent asked = context.extent(node.kept);
  if (r.from.kind == Columns::none || asked.kind == Columns::none) {
    r.columns = Reduction::Columns::all;
  } else if (context.program.info[node.arg].dims.columns == node.kept.columns ||
             asked.kind == Columns::all) {
    r.columns = Reduction::Columns::each;
    r.kept.kind = r.from.kind, r.kept.size = r.from.size;
  } else {
    r.columns =
        asked.kind == Columns::group ? Reduction::Columns::group : Reduction::Columns::period;
    r.kept.kind = asked.kind, r.kept.size = asked.size;
  }
  r.elements = (r.kept.rows ? grid.m : 1) * r.kept.columns(grid.n);
  r.parts_columns = r.from.tile_columns() && !r.kept.tile_columns() ? grid.tiles_n : 1;
  r.parts = (r.from.rows && !r.kept.rows ? grid.tiles_m : 1) * r.parts_columns;
  r.width = r.from.columns(grid.n);
  return r;
}

double terms_of(const Reduction& r, const Grid& grid) {
  const double rows = r.from.rows && !r.kept.rows ? static_cast<double>(grid.m) : 1;
  const int64_t kept = r.kept.columns(grid.n);
  const int64_t columns = kept == 0 ? 0 : r.width / kept;
  return rows * static_cast<double>(columns);
}

bool same(const Reduction& a, const Reduction& b) {
  return a.family == b.family && a.argument == b.argument && a.kept == b.kept &&
         a.columns == b.columns;
}

}  // namespace

bool in_place(const BoundCall& call) {
  for (const Binding& output : call.outputs)
    for (const Binding& input : call.inputs)
      for (const Segment& o : output.segments)
        for (const Segment& i : input.segments)
          if (o.view.data == i.view.data) return true;
  return false;
}

Extent extent_of(const ir::Dims& dims, std::span<const int64_t> symbols) {
  Extent extent{dims.rows, dims.columns.kind};
  if (extent.kind == Columns::none) return extent;
  const ir::Size n = ir::symbol_size(ir::kSymbolN);
  extent.halves = dims.columns.width == n                          ? 2
                  : dims.columns.width == n * ir::constant_size(2) ? 4
                                                                   : 1;
  if (extent.kind != Columns::all)
    extent.size = evaluate(dims.columns.size, symbols, "a group of columns");
  return extent;
}

Lowered lower(const ir::Program& program, const Instance& instance, const BoundCall& call,
              const Grid& grid, const Kernels& kernels, bool late_stores) {
  Context context{program, instance, call, kernels, {}};
  Lowered lowered;
  Lowering main(context, lowered);
  const auto store_tiles = [&](ir::ValueId of) {
    for (size_t o = 0; o < program.outputs.size(); ++o)
      if (program.outputs[o].dims.is_tile() && (of < 0 || program.outputs[o].value == of))
        main.store(static_cast<int>(o));
  };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const auto id = static_cast<ir::ValueId>(i);
    const auto* node = std::get_if<ir::Reduce>(&program.nodes[i]);
    if (node && program.info[i].stage == ir::Stage::complete) {
      const int argument = main.reduce_argument(*node);
      const Reduction r = make_reduction(context, *node, argument, main.code(argument), grid);
      const auto known = std::find_if(lowered.reductions.begin(), lowered.reductions.end(),
                                      [&](const Reduction& other) { return same(r, other); });
      const int index = static_cast<int>(known - lowered.reductions.begin());
      if (known == lowered.reductions.end()) {
        lowered.reductions.push_back(r);
        main.reduce(index, argument);
      }
      context.completed[id] = static_cast<int>(lowered.completed.size());
      const bool real = program.info[i].number == ir::Number::real;
      lowered.completed.push_back(
          {index, finish_of(node->op), terms_of(r, grid), real ? Lane::f32 : Lane::i64});
    } else if (!late_stores) {
      store_tiles(id);
    }
  }
  if (late_stores) {
    // A store may write where a later output's value is loaded from.
    for (const ir::Output& output : program.outputs)
      if (output.dims.is_tile()) main.value(output.value);
    store_tiles(-1);
  }
  lowered.main = main.finish(grid);
  lowered.main.late_stores = late_stores;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    if (program.outputs[o].dims.is_tile()) continue;
    Lowering finish(context, lowered);
    finish.store(static_cast<int>(o));
    lowered.finish.push_back(finish.finish(grid));
    lowered.finish_outputs.push_back(static_cast<int>(o));
  }
  return lowered;
}

}  // namespace coda::cpu

// SPDX-License-Identifier: Apache-2.0
#include "cuda/lower/pointwise.h"

#include <fmt/format.h>

#include "cuda/lower/fragments.h"
#include "ir/simplify.h"

namespace coda::cuda {

using ir::Columns;
using ir::Dims;
using ir::Number;
using ir::Program;
using ir::ReduceOp;
using ir::ValueId;
using Kind = Columns::Kind;
using Pass = PointwisePass;
using Rows = PointwiseWork::Rows;

Columns reduced_columns(const Program& program, const ir::Reduce& n) {
  const Columns& over = program.info[n.arg].dims.columns;
  const Columns& kept = n.kept.columns;
  if (over.kind == Kind::none || kept.kind == Kind::none || kept == over) return over;
  return {Kind::all, over.width, {}};
}

bool stored_in_tile(const Program& program, const ir::Output& output) {
  const ir::ValueInfo& value = program.info[output.value];
  return value.stage == ir::Stage::tile && output.dims.is_tile();
}

namespace {

/// Bytes of a state of standalone/pointwise.cuh.
int state_bytes(ReduceOp op, Number argument) {
  if (op == ReduceOp::argmax) return 16;
  if (op == ReduceOp::moments_mean || op == ReduceOp::moments_var) return 12;
  const bool extremum = op == ReduceOp::max || op == ReduceOp::min;
  return extremum && argument == Number::real ? 4 : 8;
}

class Lowering {
 public:
  Lowering(const Instance& instance, const std::string& name) : instance_(instance), name_(name) {
    lowered_.program = ir::eliminate(*instance.program);
    lowered_.arrays.resize(program().nodes.size(), -1);
    lowered_.joined_by_reader.resize(program().nodes.size());
  }

  LoweredPointwise whole() {
    for (ValueId id : ir::live_nodes(program()))
      if (const auto* n = std::get_if<ir::Reduce>(&program().nodes[id])) add_reduction(id, *n);
    add_outputs(std::vector<bool>(program().outputs.size()));
    return std::move(lowered_);
  }

  LoweredPointwise after_fused(const std::vector<TilePartial>& partials) {
    for (const TilePartial& partial : partials) {
      if (partial.array == static_cast<int>(lowered_.work.size())) add_partial(partial.reduction);
      lowered_.arrays[partial.reduction] = partial.array;
    }
    for (const TilePartial& partial : partials) join_tiles(partial.reduction);
    std::vector<bool> done;
    for (const ir::Output& output : program().outputs)
      done.push_back(stored_in_tile(program(), output));
    add_outputs(std::move(done));
    return std::move(lowered_);
  }

 private:
  const Program& program() const { return lowered_.program; }
  const ir::Reduce& reduce(ValueId id) const { return std::get<ir::Reduce>(program().nodes[id]); }

  int add_work(int element, const Dims& dims, Rows rows) {
    lowered_.work.push_back({element, dims, rows});
    return static_cast<int>(lowered_.work.size()) - 1;
  }
  int add_results(ValueId id) {
    return lowered_.arrays[id] = add_work(program().info[id].number == Number::real ? 4 : 8,
                                          reduce(id).kept, Rows::results);
  }
  Pass& add_pass(Pass::Kind kind, const Dims& items, bool warp) {
    const std::string kernel = fmt::format("{}_{}", name_, lowered_.passes.size());
    return lowered_.passes.emplace_back(Pass{kind, kernel, items, warp, false});
  }

  /// A reduction over columns: one warp a result (or a state, where rows are reduced too). A
  /// reduction over rows alone: one thread a state of kRowChunk rows.
  void add_reduction(ValueId id, const ir::Reduce& n) {
    const ir::ValueInfo& arg = program().info[n.arg];
    const bool all_rows = n.kept.rows || !arg.dims.rows;  // nothing to join over rows
    const Walk walk = walk_of(reduced_columns(program(), n), n.kept.columns);
    const bool chunks = !all_rows && walk == Walk::one;
    const Dims items{n.kept.rows || arg.dims.rows, n.kept.columns};
    Pass& pass = add_pass(Pass::Kind::reduce, items, !chunks);
    pass.row_chunks = chunks, pass.reduction = id, pass.walk = walk;
    pass.results = add_results(id);
    if (all_rows) return;
    const int states = add_work(state_bytes(n.op, arg.number), {true, n.kept.columns},
                                chunks ? Rows::chunks : Rows::matrix);
    pass.states = states;
    Pass& join = add_pass(Pass::Kind::join, {false, n.kept.columns}, true);
    join.reduction = id, join.results = lowered_.arrays[id], join.states = states;
  }

  Walk walk_of(const Columns& over, const Columns& kept) const {
    const auto single = [&](const Columns& columns) {
      return known_size(instance_, columns.size) == 1;
    };
    if (over.kind == Kind::none || kept == over) return Walk::one;
    if (kept.kind == Kind::none)
      return over.kind == Kind::repeat && single(over) ? Walk::one : Walk::all;
    if (kept.kind == Kind::group) return single(kept) ? Walk::one : Walk::group;
    return kept.kind == Kind::repeat ? Walk::repeat : Walk::one;
  }

  /// Partials over columns are [tile][word][m], partials over rows [tile][n].
  void add_partial(ValueId id) {
    const ir::Reduce& n = reduce(id);
    const bool along_rows = n.kept.columns.kind == Kind::none;
    const Columns& columns = program().info[n.arg].dims.columns;
    add_work(4 * device::reduce_words(device_reduce(n.op)),
             along_rows ? Dims{true, {}} : Dims{false, columns},
             along_rows ? Rows::tiles_n : Rows::tiles_m);
  }

  /// One value per row or per column is joined where it is read. Fewer values have a pass: one warp
  /// each, over the rows (all) or the columns (of the group) that make it.
  void join_tiles(ValueId id) {
    const Columns& kept = reduce(id).kept.columns;
    if (reduce(id).kept.rows || kept.kind == Kind::all) {
      lowered_.joined_by_reader[id] = true;
      return;
    }
    Pass& pass = add_pass(Pass::Kind::tiles, {false, kept}, true);
    pass.reduction = id, pass.states = lowered_.arrays[id];
    pass.walk = kept.kind == Kind::group    ? Walk::group
                : kept.kind == Kind::repeat ? Walk::repeat
                                            : Walk::all;
    pass.results = add_results(id);
  }

  /// A pass for all outputs over the same dims.
  void add_outputs(std::vector<bool> done) {
    for (size_t first = 0; first < done.size(); ++first) {
      if (done[first]) continue;
      const Dims dims = program().outputs[first].dims;
      Pass& pass = add_pass(Pass::Kind::elements, dims, false);
      for (size_t i = first; i < done.size(); ++i)
        if (program().outputs[i].dims == dims && !done[i]) {
          done[i] = true;
          pass.outputs.push_back(static_cast<int>(i));
        }
    }
  }

  const Instance& instance_;
  const std::string& name_;
  LoweredPointwise lowered_;
};

}  // namespace

LoweredPointwise lower_pointwise(const Instance& instance, const std::string& name) {
  return Lowering(instance, name).whole();
}

LoweredPointwise lower_finish(const Instance& instance, const std::string& name,
                              const std::vector<TilePartial>& partials) {
  return Lowering(instance, name).after_fused(partials);
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/codegen/pointwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/codegen/evaluation.h"
#include "cuda/codegen/op_text.h"
#include "ir/simplify.h"

namespace coda::cuda {
namespace {

using ir::Columns;
using ir::Dims;
using ir::Number;
using ir::Overloaded;
using ir::Program;
using ir::ReduceOp;
using ir::Size;
using ir::ValueId;
using Kind = Columns::Kind;

const char* state_text(ReduceOp op, Number argument) {
  const bool integer = argument != Number::real;
  switch (op) {
    case ReduceOp::sum:
      return integer ? "IntegerSum" : "Sum";
    case ReduceOp::mean:
      return "Mean";
    case ReduceOp::max:
      return integer ? "IntegerMax" : "Max";
    case ReduceOp::min:
      return integer ? "IntegerMin" : "Min";
    case ReduceOp::argmax:
      return integer ? "IntegerArgMax" : "ArgMax";
    case ReduceOp::logsumexp:
      return "LogSumExp";
    case ReduceOp::moments_mean:
      return "MomentsMean";
    case ReduceOp::moments_var:
      return "MomentsVariance";
  }
  return "";
}

int state_bytes(ReduceOp op, Number argument) {
  if (op == ReduceOp::argmax) return 16;
  if (op == ReduceOp::moments_mean || op == ReduceOp::moments_var) return 12;
  const bool extremum = op == ReduceOp::max || op == ReduceOp::min;
  return extremum && argument == Number::real ? 4 : 8;
}

/// Floats of a fused kernel's partial.
int partial_words(ReduceOp op) {
  if (op == ReduceOp::moments_mean || op == ReduceOp::moments_var) return 3;
  return op == ReduceOp::logsumexp || op == ReduceOp::argmax ? 2 : 1;
}

class Generator {
 public:
  Generator(const Instance& instance, const std::string& name)
      : program_(ir::eliminate(*instance.program)),
        instance_(instance),
        name_(name),
        sizes_{instance},
        slots_(program_.nodes.size(), -1),
        inline_(program_.nodes.size()) {
    reduced_ = [this](ValueId id, const std::string& column) { return finished(id, column); };
  }

  Pointwise run() {
    std::string kernels;
    for (ValueId id : ir::live_nodes(program_))
      if (const auto* reduce = std::get_if<ir::Reduce>(&program_.nodes[id]))
        kernels += reduction(id, *reduce);
    return outputs(kernels, std::vector<bool>(program_.outputs.size()));
  }

  Pointwise run_after_fused(const std::vector<TilePartial>& partials) {
    std::string kernels;
    for (const TilePartial& partial : partials) {
      const auto& reduce = std::get<ir::Reduce>(program_.nodes[partial.reduction]);
      if (partial.array == static_cast<int>(result_.work.size())) add_partial(reduce);
      slots_[partial.reduction] = partial.array;
    }
    for (const TilePartial& partial : partials)
      kernels +=
          join_tiles(partial.reduction, std::get<ir::Reduce>(program_.nodes[partial.reduction]));
    std::vector<bool> done;
    for (const ir::Output& output : program_.outputs)
      done.push_back(stored_in_tile(program_, output));
    return outputs(kernels, std::move(done));
  }

 private:
  Pointwise outputs(const std::string& kernels, std::vector<bool> done) {
    std::string passes;
    for (size_t i = 0; i < done.size(); ++i)
      if (!done[i]) passes += element_pass(i, done);
    if (!result_.passes.empty()) result_.text = arguments() + kernels + passes;
    return std::move(result_);
  }

  /// The expression of a finished reduction.
  std::string finished(ValueId id, const std::string& column) const {
    const auto& reduce = std::get<ir::Reduce>(program_.nodes[id]);
    const char* type = type_text(program_.info[id].number);
    if (inline_[id])
      return fmt::format("static_cast<{}>({}.get({}))", type,
                         joined(id, reduce, reduce.kept.rows ? "row" : column), count_text(reduce));
    const std::string row =
        reduce.kept.rows ? fmt::format("row * {} + ", sizes_.count(reduce.kept.columns)) : "";
    return fmt::format("static_cast<const {}*>(p.work[{}])[{}{}]", type, slots_[id], row, column);
  }

  // --- after a fused kernel
  // --------------------------------------------------------------------------

  static bool along_rows(const ir::Reduce& n) { return n.kept.columns.kind == Kind::none; }

  /// Partials over columns are [tile][word][m], partials over rows [tile][n].
  void add_partial(const ir::Reduce& n) {
    const Columns& columns = program_.info[n.arg].dims.columns;
    add_work(4 * partial_words(n.op), along_rows(n) ? Dims{true, {}} : Dims{false, columns},
             along_rows(n) ? PointwiseWork::Rows::tiles_n : PointwiseWork::Rows::tiles_m);
  }

  std::string joined(ValueId id, const ir::Reduce& n, const std::string& at) const {
    const char* state = state_text(n.op, program_.info[n.arg].number);
    const std::string stride =
        along_rows(n) ? "p.m" : sizes_.count(program_.info[n.arg].dims.columns);
    return fmt::format("joined<{}>(p.work[{}], {}, {}, {})", state, slots_[id],
                       along_rows(n) ? "p.tiles_n" : "p.tiles_m", stride, at);
  }

  /// Columns key, key + P, ... of w: how often entry `key` of a table of P entries occurs.
  std::string repeats(const Columns& over, const Columns& table) const {
    return fmt::format("(({0} - key + {1} - 1) / {1})", sizes_(over.width), sizes_(table.size));
  }

  /// Columns that make one result; of a repeating table, whole repeats.
  std::string columns_each(const ir::Reduce& n) const {
    Columns over = program_.info[n.arg].dims.columns;
    const Columns& kept = n.kept.columns;
    if (over.kind == Kind::none || over == kept || kept.kind == Kind::all) return "1ll";
    if (kept.kind == Kind::none) return sizes_.count(over);
    if (kept.kind == Kind::group) return sizes_(kept.size);
    return fmt::format("({} / {})", sizes_(over.width), sizes_(kept.size));
  }

  /// How many elements make one result of a mean, which asks for whole repeats.
  std::string count_text(const ir::Reduce& n) const {
    return (n.kept.rows ? "" : "p.m * ") + columns_each(n);
  }

  /// One value per row or per column is joined where it is read. Fewer values have a pass: one warp
  /// each, over the rows (all) or the columns (of the group) that make it.
  std::string join_tiles(ValueId id, const ir::Reduce& n) {
    if (n.kept.rows || n.kept.columns.kind == Kind::all) {
      inline_[id] = true;
      return {};
    }
    const Number number = program_.info[id].number;
    const char* state = state_text(n.op, program_.info[n.arg].number);
    std::string count = "p.m", at = "j";
    if (n.kept.columns.kind == Kind::group) {
      count = sizes_(n.kept.columns.size), at = fmt::format("key * {} + j", count);
    } else if (n.kept.columns.kind == Kind::repeat) {
      const Columns& over = program_.info[n.arg].dims.columns;
      count = repeats(over, n.kept.columns);
      at = fmt::format("key + j * {}", sizes_(n.kept.columns.size));
    }
    std::string text = open({false, n.kept.columns}, true, false);
    const std::string part = joined(id, n, at);
    text += fmt::format(
        "    {} state;\n    for (i64 j = threadIdx.x & 31; j < {}; j += 32) "
        "state.join({});\n    join_warp(state);\n",
        state, count,
        n.op == ReduceOp::argmax ? fmt::format("at_row({}, j, {})", part,
                                               sizes_.count(program_.info[n.arg].dims.columns))
                                 : part);
    slots_[id] = add_work(number == Number::real ? 4 : 8, n.kept, PointwiseWork::Rows::results);
    return text + fmt::format(
                      "    if ((threadIdx.x & 31) == 0) static_cast<{}*>(p.work[{}])[key] = "
                      "state.get({});\n  }}\n}}\n\n",
                      type_text(number), slots_[id], count_text(n));
  }

  // --- without one
  // -----------------------------------------------------------------------------------

  std::string arguments() const {
    return fmt::format(
        "struct {0}_Arguments {{\n  i64 m, n, tiles_m, tiles_n;\n  union {{ float real; i64 "
        "integer; }} "
        "numbers[{1}];\n"
        "  View views[{2}];\n  void* work[{3}];\n}};\n\n",
        name_, std::max<size_t>(program_.inputs.size(), 1),
        program_.inputs.size() + program_.outputs.size(), std::max<size_t>(result_.work.size(), 1));
  }

  /// Opens kernel number passes.size() over `items`: defines row and key for each item.
  std::string open(const Dims& items, bool warp, bool chunks) {
    const std::string kernel = fmt::format("{}_{}", name_, result_.passes.size());
    result_.passes.push_back({kernel, 256, items, warp, chunks});
    const std::string rows = !items.rows ? "1ll"
                             : chunks ? fmt::format("((p.m + {0}) / {1})", kRowChunk - 1, kRowChunk)
                                      : "p.m";
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(256)\n{0}(const __grid_constant__ "
        "{1}_Arguments p) "
        "{{\n  const i64 keys = {2}, items = {3} * keys, step = static_cast<i64>(gridDim.x) * "
        "blockDim.x{4};\n  for (i64 item = (static_cast<i64>(blockIdx.x) * blockDim.x + "
        "threadIdx.x){4}; "
        "item < items; item += step) {{\n    [[maybe_unused]] const i64 {5} = item / keys, key = "
        "item % keys;\n",
        kernel, name_, sizes_.count(items.columns), rows, warp ? " / 32" : "",
        chunks ? "chunk" : "row");
  }

  int add_work(int element, const Dims& dims, PointwiseWork::Rows rows) {
    result_.work.push_back({element, dims, rows});
    return static_cast<int>(result_.work.size()) - 1;
  }

  /// A reduction over columns: one warp a result (or a partial, where rows are reduced too). A
  /// reduction over rows alone: one thread a partial of kRowChunk rows.
  std::string reduction(ValueId id, const ir::Reduce& n) {
    const ir::ValueInfo& arg = program_.info[n.arg];
    Columns over = arg.dims.columns;
    const Columns& kept = n.kept.columns;
    if (over.kind != Kind::none && kept.kind != Kind::none && !(kept == over))
      over = {Kind::all, over.width, {}};
    const bool all_rows = n.kept.rows || !arg.dims.rows;  // nothing to join over rows
    const std::string state = state_text(n.op, arg.number);
    const int bytes = program_.info[id].number == Number::real ? 4 : 8;
    slots_[id] = add_work(bytes, n.kept, PointwiseWork::Rows::results);

    std::string count = "1ll", column = "key";
    if (over.kind == Kind::none || kept == over) {
      // the column of the result itself
    } else if (kept.kind == Kind::none) {
      count = sizes_.count(over), column = "j";
    } else if (kept.kind == Kind::group) {
      count = sizes_(kept.size), column = fmt::format("key * {} + j", sizes_(kept.size));
    } else if (kept.kind == Kind::repeat) {
      count = repeats(over, kept);
      column = fmt::format("key + j * {}", sizes_(kept.size));
    }
    const bool chunks = !all_rows && count == "1ll";
    const Dims items{n.kept.rows || arg.dims.rows, kept};
    std::string text = open(items, !chunks, chunks);
    Evaluation body(program_, instance_, reduced_);
    const int at = over.kind == Kind::none ? -1 : body.place(over, "column");
    const std::string x = body.value(n.arg, at);
    const char* wanted = state.rfind("Integer", 0) == 0 ? "i64" : "float";
    const bool reduces_columns = count != "1ll" || column == "j";
    const std::string flat = !arg.dims.rows || n.kept.rows ? "column"
                             : !reduces_columns
                                 ? "row"
                                 : fmt::format("row * {} + column", sizes_.count(over));
    text += fmt::format("    {} state;\n", state);
    if (chunks)
      text += fmt::format(
          "    for (i64 row = chunk * {0}; row < p.m && row < (chunk + 1) * {0}; ++row) "
          "{{\n    [[maybe_unused]] const i64 column = key;\n",
          kRowChunk);
    else
      text += fmt::format(
          "    for (i64 j = threadIdx.x & 31; j < {}; j += 32) {{\n    [[maybe_unused]] const i64 "
          "column = "
          "{};\n",
          count, column);
    text += body.take() +
            fmt::format("    state.add(static_cast<{}>({}), {});\n    }}\n", wanted, x, flat);
    if (!chunks) text += "    join_warp(state);\n";
    const char* leader = chunks ? "" : "if ((threadIdx.x & 31) == 0) ";
    const std::string results = fmt::format("static_cast<{}*>(p.work[{}])",
                                            type_text(program_.info[id].number), slots_[id]);
    if (all_rows)
      return text + fmt::format("    {}{}[item] = state.get({});\n  }}\n}}\n\n", leader, results,
                                columns_each(n));
    const auto rows = chunks ? PointwiseWork::Rows::chunks : PointwiseWork::Rows::matrix;
    const int partials = add_work(state_bytes(n.op, arg.number), {true, kept}, rows);
    text += fmt::format("    {}static_cast<{}*>(p.work[{}])[item] = state;\n  }}\n}}\n\n", leader,
                        state, partials);
    const std::string kernel = fmt::format("{}_{}", name_, result_.passes.size());
    result_.passes.push_back({kernel, 256, {false, kept}, true, false});
    return text +
           fmt::format(
               "extern \"C\" __global__ void __launch_bounds__(256)\n{}(const __grid_constant__ "
               "{}_Arguments p) {{\n  finish_partials(static_cast<const {}*>(p.work[{}]), {}, {}, "
               "p.m "
               "* {}, {});\n}}\n\n",
               kernel, name_, state, partials,
               chunks ? fmt::format("(p.m + {}) / {}", kRowChunk - 1, kRowChunk) : "p.m",
               sizes_.count(kept), columns_each(n), results);
  }

  /// All outputs over the dims of output `first`.
  std::string element_pass(size_t first, std::vector<bool>& done) {
    const Dims dims = program_.outputs[first].dims;
    std::string text = open(dims, false, false);
    Evaluation body(program_, instance_, reduced_);
    const int at = dims.columns.kind == Kind::none ? -1 : body.place(dims.columns, "key");
    std::string puts;
    for (size_t i = first; i < done.size(); ++i) {
      const ir::Output& output = program_.outputs[i];
      if (!(output.dims == dims)) continue;
      done[i] = true;
      const Number number = program_.info[output.value].number;
      const std::string x = body.value(output.value, at);
      puts += fmt::format("    put<{}>(p.views[{}], row, key, static_cast<{}>({}));\n",
                          storage_text(storage(output.type, instance_)), program_.inputs.size() + i,
                          number == Number::real ? "float" : "i64", x);
    }
    return text + body.take() + puts + "  }\n}\n\n";
  }

  Program program_;
  const Instance& instance_;
  const std::string& name_;
  Sizes sizes_;
  std::vector<int> slots_;    // of each reduction: the array of its results, or of its partials
  std::vector<bool> inline_;  // joined from partials where it is read
  Evaluation::Reduced reduced_;
  Pointwise result_;
};

}  // namespace

Pointwise generate_pointwise(const Instance& instance, const std::string& name) {
  return Generator(instance, name).run();
}

Pointwise generate_finish(const Instance& instance, const std::string& name,
                          const std::vector<TilePartial>& partials) {
  return Generator(instance, name).run_after_fused(partials);
}

bool stored_in_tile(const ir::Program& program, const ir::Output& output) {
  const ir::ValueInfo& value = program.info[output.value];
  return value.stage == ir::Stage::tile && output.dims.is_tile();
}

}  // namespace coda::cuda

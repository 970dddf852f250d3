// SPDX-License-Identifier: Apache-2.0
#include "cuda/codegen/pointwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/codegen/evaluation.h"
#include "cuda/scalar/op_text.h"

namespace coda::cuda {
namespace {

using ir::Columns;
using ir::Dims;
using ir::Number;
using ir::Program;
using ir::ReduceOp;
using ir::ValueId;
using Kind = Columns::Kind;
using Pass = PointwisePass;

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

class Printer {
 public:
  Printer(const Instance& instance, const std::string& name, LoweredPointwise lowered)
      : lowered_(std::move(lowered)), instance_(instance), name_(name), sizes_{instance} {
    reduced_ = [this](ValueId id, const std::string& column) { return finished(id, column); };
  }

  Pointwise print() {
    std::string text = lowered_.passes.empty() ? "" : arguments();
    for (const Pass& pass : lowered_.passes) text += kernel(pass);
    return {std::move(text), std::move(lowered_.passes), std::move(lowered_.work)};
  }

 private:
  const Program& program() const { return lowered_.program; }
  const ir::Reduce& reduce(ValueId id) const { return std::get<ir::Reduce>(program().nodes[id]); }
  const char* state(ValueId id) const {
    return state_text(reduce(id).op, program().info[reduce(id).arg].number);
  }
  const Columns& columns_of_argument(ValueId id) const {
    return program().info[reduce(id).arg].dims.columns;
  }

  std::string arguments() const {
    return fmt::format(
        "struct {0}_Arguments {{\n  i64 m, n, tiles_m, tiles_n;\n  union {{ float real; i64 "
        "integer; }} numbers[{1}];\n  View views[{2}];\n  void* work[{3}];\n}};\n\n",
        name_, std::max<size_t>(program().inputs.size(), 1),
        program().inputs.size() + program().outputs.size(),
        std::max<size_t>(lowered_.work.size(), 1));
  }

  std::string kernel(const Pass& pass) const {
    const std::string head = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({})\n{}(const __grid_constant__ "
        "{}_Arguments p) {{\n",
        kPassThreads, pass.kernel, name_);
    switch (pass.kind) {
      case Pass::Kind::reduce:
        return head + open(pass) + reduction(pass) + "  }\n}\n\n";
      case Pass::Kind::join:
        return head + join(pass) + "}\n\n";
      case Pass::Kind::tiles:
        return head + open(pass) + tiles(pass) + "  }\n}\n\n";
      case Pass::Kind::elements:
        return head + open(pass) + elements(pass) + "  }\n}\n\n";
    }
    return {};
  }

  std::string chunks() const { return fmt::format("(p.m + {}) / {}", kRowChunk - 1, kRowChunk); }

  /// Opens the loop over items: defines row (or chunk) and key for each.
  std::string open(const Pass& pass) const {
    const std::string rows = !pass.items.rows  ? "1ll"
                             : pass.row_chunks ? "(" + chunks() + ")"
                                               : "p.m";
    return fmt::format(
        "  const i64 keys = {0}, items = {1} * keys, step = static_cast<i64>(gridDim.x) * "
        "blockDim.x{2};\n  for (i64 item = (static_cast<i64>(blockIdx.x) * blockDim.x + "
        "threadIdx.x){2}; item < items; item += step) {{\n    [[maybe_unused]] const i64 {3} = "
        "item "
        "/ keys, key = item % keys;\n",
        sizes_.count(pass.items.columns), rows, pass.warp_per_item ? " / 32" : "",
        pass.row_chunks ? "chunk" : "row");
  }

  /// How many there are of what a walk visits, and which is the j-th.
  struct WalkText {
    std::string count, at;
  };
  WalkText walk(const Pass& pass, const Columns& over, const std::string& all) const {
    const Columns& kept = reduce(pass.reduction).kept.columns;
    if (pass.walk == Walk::one) return {"1ll", "key"};
    if (pass.walk == Walk::all) return {all, "j"};
    const std::string size = sizes_(kept.size);
    if (pass.walk == Walk::group) return {size, fmt::format("key * {} + j", size)};
    return {fmt::format("(({0} - key + {1} - 1) / {1})", sizes_(over.width), size),
            fmt::format("key + j * {}", size)};
  }

  /// Columns that make one result; of a repeating table, whole repeats.
  std::string columns_each(const ir::Reduce& n) const {
    const Columns& over = program().info[n.arg].dims.columns;
    const Columns& kept = n.kept.columns;
    if (over.kind == Kind::none || over == kept || kept.kind == Kind::all) return "1ll";
    if (kept.kind == Kind::none) return sizes_.count(over);
    if (kept.kind == Kind::group) return sizes_(kept.size);
    return fmt::format("({} / {})", sizes_(over.width), sizes_(kept.size));
  }

  /// How many elements make one result of a mean, which asks for whole repeats.
  std::string elements_each(const ir::Reduce& n) const {
    return (n.kept.rows ? "" : "p.m * ") + columns_each(n);
  }

  std::string array(int index, const char* type) const {
    return fmt::format("static_cast<{}*>(p.work[{}])", type, index);
  }
  std::string results(const Pass& pass) const {
    return array(pass.results, type_text(program().info[pass.reduction].number));
  }

  /// The state that a fused kernel's tiles make at one row or column.
  std::string joined(ValueId id, int partials, const std::string& at) const {
    const bool along_rows = reduce(id).kept.columns.kind == Kind::none;
    return fmt::format("joined<{}>(p.work[{}], {}, {}, {})", state(id), partials,
                       along_rows ? "p.tiles_n" : "p.tiles_m",
                       along_rows ? "p.m" : sizes_.count(columns_of_argument(id)), at);
  }

  /// The expression of a finished reduction.
  std::string finished(ValueId id, const std::string& column) const {
    const ir::Reduce& n = reduce(id);
    const char* type = type_text(program().info[id].number);
    if (lowered_.joined_by_reader[id])
      return fmt::format("static_cast<{}>({}.get({}))", type,
                         joined(id, lowered_.arrays[id], n.kept.rows ? "row" : column),
                         elements_each(n));
    const std::string row =
        n.kept.rows ? fmt::format("row * {} + ", sizes_.count(n.kept.columns)) : "";
    return fmt::format("static_cast<const {}*>(p.work[{}])[{}{}]", type, lowered_.arrays[id], row,
                       column);
  }

  std::string reduction(const Pass& pass) const {
    const ir::Reduce& n = reduce(pass.reduction);
    const ir::ValueInfo& arg = program().info[n.arg];
    const Columns over = reduced_columns(program(), n);
    const WalkText columns = walk(pass, over, sizes_.count(over));
    Evaluation body(program(), instance_, reduced_);
    const std::string x =
        body.value(n.arg, over.kind == Kind::none ? -1 : body.place(over, "column"));
    const std::string_view type = state(pass.reduction);
    const std::string flat = !arg.dims.rows || n.kept.rows ? "column"
                             : pass.walk == Walk::one
                                 ? "row"
                                 : fmt::format("row * {} + column", sizes_.count(over));
    const std::string loop =
        pass.row_chunks
            ? fmt::format("i64 row = chunk * {0}; row < p.m && row < (chunk + 1) * {0}; ++row",
                          kRowChunk)
            : fmt::format("i64 j = threadIdx.x & 31; j < {}; j += 32", columns.count);
    const std::string result =
        pass.states < 0
            ? fmt::format("{}[item] = state.get({})", results(pass), columns_each(n))
            : fmt::format("{}[item] = state", array(pass.states, state(pass.reduction)));
    return fmt::format(
        "    {} state;\n    for ({}) {{\n    [[maybe_unused]] const i64 column = {};\n{}"
        "    state.add(static_cast<{}>({}), {});\n    }}\n{}{};\n",
        type, loop, columns.at, body.take(), type.starts_with("Integer") ? "i64" : "float", x, flat,
        pass.row_chunks ? "    " : "    join_warp(state);\n    if ((threadIdx.x & 31) == 0) ",
        result);
  }

  std::string join(const Pass& pass) const {
    const ir::Reduce& n = reduce(pass.reduction);
    const bool chunked = lowered_.work[pass.states].rows == PointwiseWork::Rows::chunks;
    return fmt::format("  finish_partials(static_cast<const {}*>(p.work[{}]), {}, {}, {}, {});\n",
                       state(pass.reduction), pass.states, chunked ? chunks() : "p.m",
                       sizes_.count(n.kept.columns), elements_each(n), results(pass));
  }

  std::string tiles(const Pass& pass) const {
    const ir::Reduce& n = reduce(pass.reduction);
    const Columns& over = columns_of_argument(pass.reduction);
    const WalkText places = walk(pass, over, "p.m");
    std::string part = joined(pass.reduction, pass.states, places.at);
    if (n.op == ReduceOp::argmax) part = fmt::format("at_row({}, j, {})", part, sizes_.count(over));
    return fmt::format(
        "    {} state;\n    for (i64 j = threadIdx.x & 31; j < {}; j += 32) state.join({});\n"
        "    join_warp(state);\n    if ((threadIdx.x & 31) == 0) {}[key] = state.get({});\n",
        state(pass.reduction), places.count, part, results(pass), elements_each(n));
  }

  std::string elements(const Pass& pass) const {
    const Columns& columns = pass.items.columns;
    Evaluation body(program(), instance_, reduced_);
    const int at = columns.kind == Kind::none ? -1 : body.place(columns, "key");
    std::string puts;
    for (const int i : pass.outputs) {
      const ir::Output& output = program().outputs[i];
      const bool real = program().info[output.value].number == Number::real;
      const std::string x = body.value(output.value, at);
      puts += fmt::format("    put<{}>(p.views[{}], row, key, static_cast<{}>({}));\n",
                          storage_text(storage(output.type, instance_)),
                          program().inputs.size() + i, real ? "float" : "i64", x);
    }
    return body.take() + puts;
  }

  LoweredPointwise lowered_;
  const Instance& instance_;
  const std::string& name_;
  Sizes sizes_;
  Evaluation::Reduced reduced_;
};

}  // namespace

Pointwise generate_pointwise(const Instance& instance, const std::string& name) {
  return Printer(instance, name, lower_pointwise(instance, name)).print();
}

Pointwise generate_finish(const Instance& instance, const std::string& name,
                          const std::vector<TilePartial>& partials) {
  return Printer(instance, name, lower_finish(instance, name, partials)).print();
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/codegen/fused.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "cuda/codegen/op_text.h"
#include "cuda/plan/problem.h"
#include "cuda/plan/text.h"
#include "ir/simplify.h"

namespace coda::cuda {
namespace {

using device::Kind;
using device::Port;
using device::Type;
using device::Width;
using ir::Columns;
using ir::Dims;
using ir::Number;
using ir::Program;
using ir::ReduceOp;
using ir::Size;
using ir::Stage;
using ir::ValueId;

Type device_type(DType type) {
  switch (type) {
    case DType::f32:
      return Type::f32;
    case DType::bf16:
      return Type::bf16;
    case DType::f16:
      return Type::f16;
    case DType::e4m3:
      return Type::e4m3;
    case DType::e5m2:
      return Type::e5m2;
    case DType::u8:
      return Type::u8;
    case DType::i32:
      return Type::i32;
    default:
      return Type::i64;
  }
}

Width width_of(const Columns& columns) {
  const Size n = ir::symbol_size(ir::kSymbolN);
  if (columns.width == n) return Width::full;
  return columns.width == n * ir::constant_size(2) ? Width::twice : Width::half;
}

device::Reduce device_reduce(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return device::Reduce::max;
    case ReduceOp::min:
      return device::Reduce::min;
    case ReduceOp::logsumexp:
      return device::Reduce::logsumexp;
    case ReduceOp::argmax:
      return device::Reduce::argmax;
    case ReduceOp::moments_mean:
    case ReduceOp::moments_var:
      return device::Reduce::moments;
    default:
      return device::Reduce::sum;
  }
}

int size_of_symbols(const Instance& instance, const Size& size) {
  return static_cast<int>(ir::evaluate(size, instance.symbols, "a group or pair"));
}

/// What a load that is narrower than the tile becomes; nothing where the driver has no port for it.
std::optional<Port> input_port(const Instance& instance, const ir::Input& input) {
  Port port{};
  const Columns& columns = input.dims.columns;
  const bool integer = !input.type.generic && !is_float(input.type.dtype);
  port.type = device_type(storage(input.type, instance));
  if (columns.kind != Columns::Kind::none) port.width = width_of(columns);
  if (input.kind == ir::Input::Kind::scalar) {
    port.kind = Kind::number, port.type = Type::f32;
    return integer ? std::nullopt : std::optional(port);
  }
  if (columns.kind == Columns::Kind::none) {
    port.kind = input.dims.rows ? Kind::col_vector : Kind::scalar;
    return !input.dims.rows && integer ? std::nullopt : std::optional(port);
  }
  if (!input.dims.rows) {
    port.kind = Kind::row_vector;
    if (columns.kind == Columns::Kind::repeat)
      port.period = size_of_symbols(instance, columns.size);
    if (columns.kind == Columns::Kind::group) port.group = size_of_symbols(instance, columns.size);
    return port;
  }
  if (columns.kind == Columns::Kind::repeat) return std::nullopt;
  if (columns.kind == Columns::Kind::all) {
    port.kind = Kind::tile_in;
    return port.type == Type::i32 || port.type == Type::i64 ? std::nullopt : std::optional(port);
  }
  port.kind = Kind::group_in, port.group = size_of_symbols(instance, columns.size);
  return port.type == Type::f32 && port.width == Width::full ? std::optional(port) : std::nullopt;
}

/// The values that the kernel itself evaluates: what tile outputs and complete reductions need.
std::vector<ValueId> tile_nodes(const Program& program) {
  std::vector<bool> needed(program.nodes.size());
  for (const ir::Output& output : program.outputs)
    if (stored_in_tile(program, output)) needed[output.value] = true;
  for (ValueId id : ir::live_nodes(program))
    if (const auto* n = std::get_if<ir::Reduce>(&program.nodes[id]))
      if (program.info[id].stage == Stage::complete) needed[n->arg] = true;
  std::vector<ValueId> result;
  for (size_t i = program.nodes.size(); i-- > 0;)
    if (needed[i]) {
      result.push_back(static_cast<ValueId>(i));
      for (ValueId id : expression_operands(program, static_cast<ValueId>(i))) needed[id] = true;
    }
  std::reverse(result.begin(), result.end());
  return result;
}

bool in_tile_reduction(const Program& program, ValueId id) {
  return std::holds_alternative<ir::Reduce>(program.nodes[id]) &&
         program.info[id].stage == Stage::tile;
}

/// `id` and what it is computed from, without what lies behind reductions.
void collect(const Program& program, ValueId id, std::set<ValueId>& nodes) {
  if (!nodes.insert(id).second || in_tile_reduction(program, id)) return;
  for (ValueId operand : expression_operands(program, id)) collect(program, operand, nodes);
}

/// Offset of the columns that a node pairs; 0 for other nodes.
int pair_offset(const Instance& instance, const ir::Node& node) {
  if (const auto* n = std::get_if<ir::Split>(&node)) return size_of_symbols(instance, n->half);
  if (const auto* n = std::get_if<ir::Join>(&node)) return size_of_symbols(instance, n->half);
  if (const auto* n = std::get_if<ir::Swap>(&node)) return size_of_symbols(instance, n->half);
  return 0;
}

/// Why a node has no form on fragments; empty where it has one.
std::string node_problem(const Instance& instance, const Program& program, ValueId id) {
  const ir::Node& node = program.nodes[id];
  const int pair = pair_offset(instance, node);
  if (pair > 1 && pair % 8 != 0)
    return fmt::format("pairs at offset {} (1 or a multiple of 8 fit)", pair);
  if (const auto* n = std::get_if<ir::Swap>(&node))
    if (pair == 1 || size_of_symbols(instance, n->group) % (2 * pair) != 0)
      return "a swap whose group is no multiple of twice its offset";
  if (const auto* n = std::get_if<ir::InputValue>(&node)) {
    const ir::Input& input = program.inputs[n->input];
    if (input.kind != ir::Input::Kind::accumulator && !input_port(instance, input))
      return "input '" + input.name + "' over " + ir::to_string(input.dims, program) + " as " +
             to_string(input.type);
  }
  if (!in_tile_reduction(program, id)) return "";
  const auto& n = std::get<ir::Reduce>(node);
  const int group = size_of_symbols(instance, n.kept.columns.size);
  const bool one_word = device::reduce_words(device_reduce(n.op)) == 1;
  const ir::ValueInfo& arg = program.info[n.arg];
  const bool tile = arg.dims.rows && arg.dims.columns.kind == Columns::Kind::all &&
                    width_of(arg.dims.columns) == Width::full && arg.number != Number::integer;
  std::set<ValueId> behind;
  collect(program, n.arg, behind);
  const bool nested = std::any_of(behind.begin(), behind.end(),
                                  [&](ValueId i) { return in_tile_reduction(program, i); });
  if (!one_word || !tile || nested || group % 8 != 0)
    return fmt::format("{} over groups of {} columns{}", name_of(n.op), group,
                       nested ? " of groups" : "");
  return "";
}

std::string reduction_problem(const Program& program, const ir::Reduce& n) {
  const ir::ValueInfo& arg = program.info[n.arg];
  const std::string what = std::string(name_of(n.op)) + to_string(n.kept, program);
  if (!arg.dims.rows || arg.dims.columns.kind != Columns::Kind::all)
    return what + " over " + to_string(arg.dims, program) + ", which is no tile";
  if (arg.number == Number::integer) return what + " of integers";
  if (n.kept.rows && n.kept.columns.kind == Columns::Kind::repeat) return what;
  const bool words = device::reduce_words(device_reduce(n.op)) > 1;
  if (n.kept.columns.kind != Columns::Kind::none && words) return what + " over rows";
  return "";
}

}  // namespace

int pair_of(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  bool narrow_or_wide = false;
  for (ValueId id : tile_nodes(program)) {
    if (const int pair = pair_offset(instance, program.nodes[id])) return pair;
    const Columns& columns = program.info[id].dims.columns;
    narrow_or_wide =
        narrow_or_wide || (columns.kind != Columns::Kind::none && width_of(columns) != Width::full);
  }
  return narrow_or_wide ? 8 : 0;
}

int chunk_multiple(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  int multiple = std::max(2 * pair_of(instance), 16);
  for (ValueId id : tile_nodes(program))
    if (in_tile_reduction(program, id))
      multiple = std::lcm(
          multiple,
          size_of_symbols(instance, std::get<ir::Reduce>(program.nodes[id]).kept.columns.size));
  return multiple;
}

std::optional<std::string> fused_problem(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  if (std::none_of(program.inputs.begin(), program.inputs.end(), [](const ir::Input& input) {
        return input.kind == ir::Input::Kind::accumulator;
      }))
    return "there is no accumulator";
  if (tile_nodes(program).empty()) return "no output needs the tile";
  for (ValueId id : tile_nodes(program))
    if (const std::string problem = node_problem(instance, program, id); !problem.empty())
      return problem;
  for (ValueId id : ir::live_nodes(program))
    if (const auto* n = std::get_if<ir::Reduce>(&program.nodes[id]))
      if (program.info[id].stage == Stage::complete)
        if (const std::string problem = reduction_problem(program, *n); !problem.empty())
          return problem;
  for (const ir::Output& output : program.outputs) {
    if (!stored_in_tile(program, output)) continue;
    const DType type = storage(output.type, instance);
    const bool group = output.dims.columns.kind == Columns::Kind::group;
    if (group ? type != DType::f32 || width_of(output.dims.columns) != Width::full
              : type == DType::i32 || type == DType::i64)
      return "output '" + output.name + "' over " + to_string(output.dims, program) + " as " +
             name_of(type);
  }
  const int pair = pair_of(instance);
  for (ValueId id : tile_nodes(program))
    if (const int other = pair_offset(instance, program.nodes[id]); other != 0 && other != pair)
      return fmt::format("pairs at two offsets, {} and {}", pair, other);
  if (const int multiple = chunk_multiple(instance); 128 % multiple != 0)
    return fmt::format("pairs or groups that span {} columns (a divisor of 128 fits)", multiple);
  return std::nullopt;
}

namespace {

/// Writes `apply`: runs of elementwise values as one loop over a fragment each, and calls of the
/// driver in between. Values that vary over columns are fragments; a value per row is an array of
/// 4, element i & 2.
class Emitter {
 public:
  Emitter(const Instance& instance, const Program& program, int pair)
      : instance_(instance), program_(program), nodes_(tile_nodes(program)), pair_(pair) {
    collect_ports();
  }

  const std::vector<FusedPort>& ports() const { return ports_; }
  const std::vector<TilePartial>& partials() const { return partials_; }
  void cut_ports(const std::vector<device::Seams>& seams) {
    for (size_t i = 0; i < seams.size(); ++i) ports_.at(i).port.seams = seams[i];
  }

  int passes() const {
    return std::any_of(ports_.begin(), ports_.end(),
                       [](const FusedPort& port) { return port.port.kind == Kind::group_fold; })
               ? 2
               : 1;
  }

  std::string body() {
    if (passes() == 1) return pass(false);
    return "    if constexpr (Pass == 0) {\n" + pass(true) + "    } else {\n" + pass(false) +
           "    }\n";
  }

 private:
  bool by_rows(ValueId id) const {
    const Dims& dims = program_.info[id].dims;
    return dims.rows && dims.columns.kind == Columns::Kind::none;
  }
  bool scalar(ValueId id) const { return program_.info[id].dims.is_scalar(); }
  int fragment(const Columns& columns) const {
    return 4 * device::strip_blocks(pair_, width_of(columns));
  }
  int elements(ValueId id) const {
    return scalar(id) ? 1 : by_rows(id) ? 4 : fragment(program_.info[id].dims.columns);
  }

  void collect_ports() {
    for (ValueId id : nodes_)
      if (const auto* n = std::get_if<ir::InputValue>(&program_.nodes[id])) {
        const ir::Input& input = program_.inputs[n->input];
        if (input.kind != ir::Input::Kind::accumulator)
          ports_.push_back({*input_port(instance_, input), n->input});
      }
    for (ValueId id : nodes_)
      if (in_tile_reduction(program_, id)) {
        const auto& n = std::get<ir::Reduce>(program_.nodes[id]);
        Port port{Kind::group_fold};
        port.reduce = device_reduce(n.op),
        port.group = size_of_symbols(instance_, n.kept.columns.size);
        ports_.push_back({port, -1, -1, id});
      }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const ir::Output& output = program_.outputs[i];
      if (!stored_in_tile(program_, output)) continue;
      Port port{Kind::tile_out, width_of(output.dims.columns)};
      port.type = device_type(storage(output.type, instance_));
      if (output.dims.columns.kind == Columns::Kind::group) {
        port.kind = Kind::group_out;
        port.group = size_of_symbols(instance_, output.dims.columns.size);
      }
      ports_.push_back({port, -1, static_cast<int>(i)});
    }
    std::map<std::tuple<ValueId, int, int>, int> arrays;  // by argument, direction and state
    for (ValueId id : ir::live_nodes(program_)) {
      const auto* n = std::get_if<ir::Reduce>(&program_.nodes[id]);
      if (!n || program_.info[id].stage != Stage::complete) continue;
      const bool along_rows = n->kept.columns.kind == Columns::Kind::none;
      const auto key = std::make_tuple(n->arg, static_cast<int>(along_rows),
                                       static_cast<int>(device_reduce(n->op)));
      const auto [at, is_new] = arrays.emplace(key, static_cast<int>(arrays.size()));
      partials_.push_back({id, at->second});
      if (!is_new) continue;
      Port port{along_rows ? Kind::keep_m : Kind::keep_n,
                width_of(program_.info[n->arg].dims.columns)};
      port.reduce = device_reduce(n->op);
      ports_.push_back({port, -1, -1, id});
    }
  }

  /// The text of one pass: what folded groups need, or everything else.
  std::string pass(bool folding) {
    std::set<ValueId> wanted;
    std::vector<int> results;
    for (size_t i = 0; i < ports_.size(); ++i) {
      const FusedPort& port = ports_[i];
      if (port.input >= 0 || (port.port.kind == Kind::group_fold) != folding) continue;
      results.push_back(static_cast<int>(i));
      collect(program_, value_of(port), wanted);
    }
    plan_loops(wanted, results);
    text_.clear();
    for (ValueId id : wanted)
      if (std::holds_alternative<ir::InputValue>(program_.nodes[id])) load(id);
    for (const Step& step : steps_) step.loop ? write_loop(step.nodes) : write_call(step.nodes[0]);
    for (int index : results) write_result(index);
    return std::move(text_);
  }

  ValueId value_of(const FusedPort& port) const {
    return port.output >= 0 ? program_.outputs[port.output].value
                            : std::get<ir::Reduce>(program_.nodes[port.reduction]).arg;
  }

  /// Neighbouring elementwise values of one size share a loop; what is read elsewhere becomes an
  /// array.
  void plan_loops(const std::set<ValueId>& wanted, const std::vector<int>& results) {
    steps_.clear();
    step_of_.assign(program_.nodes.size(), -1);
    escapes_.assign(program_.nodes.size(), false);
    // Numbers and values per row first: they need nothing of the tile, and between the tile's
    // values they would end a loop, whose values then have to live on as arrays.
    std::vector<ValueId> order(wanted.begin(), wanted.end());
    std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
      const auto rank = [&](ValueId id) { return scalar(id) ? 0 : by_rows(id) ? 1 : 2; };
      return rank(a) < rank(b);
    });
    for (ValueId id : order) {
      const ir::Node& node = program_.nodes[id];
      if (std::holds_alternative<ir::InputValue>(node)) continue;
      const bool loop = pair_offset(instance_, node) == 0 && !in_tile_reduction(program_, id);
      if (!loop || steps_.empty() || !steps_.back().loop ||
          elements(steps_.back().nodes[0]) != elements(id) ||
          by_rows(steps_.back().nodes[0]) != by_rows(id))
        steps_.push_back({loop, {}});
      steps_.back().nodes.push_back(id);
      step_of_[id] = static_cast<int>(steps_.size()) - 1;
    }
    for (ValueId id : wanted)
      if (!in_tile_reduction(program_, id))
        for (ValueId operand : expression_operands(program_, id))
          if (step_of_[operand] != step_of_[id]) escapes_[operand] = true;
    for (int index : results) escapes_[value_of(ports_[index])] = true;
  }

  std::string name(ValueId id) const {
    const auto* n = std::get_if<ir::InputValue>(&program_.nodes[id]);
    if (!n || program_.inputs[n->input].kind != ir::Input::Kind::accumulator)
      return fmt::format("v{}", id);
    const auto accumulator = [](const ir::Input& input) {
      return input.kind == ir::Input::Kind::accumulator;
    };
    return fmt::format("acc[{}]", std::count_if(program_.inputs.begin(),
                                                program_.inputs.begin() + n->input, accumulator));
  }
  void line(const std::string& text) { text_ += "    " + text + "\n"; }
  void declare(ValueId id) {
    line(fmt::format("{} {}[{}];", type_text(program_.info[id].number), name(id), elements(id)));
  }
  void loop(int count, const std::string& statement) {
    line("#pragma unroll");
    line(fmt::format("for (int i = 0; i < {}; ++i) {}", count, statement));
  }

  int port_of(int input, ValueId reduction) const {
    for (size_t i = 0; i < ports_.size(); ++i)
      if (ports_[i].input == input && ports_[i].reduction == reduction) return static_cast<int>(i);
    return -1;
  }

  void load(ValueId id) {
    const int input = std::get<ir::InputValue>(program_.nodes[id]).input;
    if (program_.inputs[input].kind == ir::Input::Kind::accumulator) return;
    const int p = port_of(input, -1);
    const Port& port = ports_[p].port;
    static constexpr const char* kCalls[] = {
        "load", "", "row_vector", "col_vector", "scalar", "number", "", "", "", "group_in", ""};
    const char* call = kCalls[static_cast<int>(port.kind)];
    if (scalar(id))
      return line(fmt::format("const float {} = t.template {}<{}>();", name(id), call, p));
    declare(id);
    if (program_.info[id].number == Number::real)
      return line(fmt::format("t.template {}<{}>({});", call, p, name(id)));
    // integers arrive in the driver's type; bytes of a tile pass through float, exactly
    const char* type = port.kind == Kind::tile_in ? "float"
                       : port.type == Type::i64   ? "i64"
                       : port.type == Type::i32   ? "int"
                                                  : "float";
    line(fmt::format("{} n{}[{}];", type, id, elements(id)));
    line(fmt::format("t.template {}<{}>(n{});", call, p, id));
    loop(elements(id), fmt::format("{}[i] = static_cast<i64>(n{}[i]);", name(id), id));
  }

  /// The element of `id` that belongs to element i of a loop.
  std::string element(ValueId id, bool rows_loop, int step) const {
    if (scalar(id) || (step >= 0 && step_of_[id] == step && !escapes_[id])) return name(id);
    return name(id) + (by_rows(id) && !rows_loop ? "[i & 2]" : "[i]");
  }

  void write_loop(const std::vector<ValueId>& nodes) {
    const ValueId first = nodes[0];
    if (!scalar(first)) {
      for (ValueId id : nodes)
        if (escapes_[id]) declare(id);
      loop(elements(first), "{");
    }
    for (ValueId id : nodes) {
      std::vector<std::string> operands;
      for (ValueId operand : expression_operands(program_, id))
        operands.push_back(element(operand, by_rows(id), step_of_[id]));
      const std::string value =
          expression_text(program_, id, instance_.type, instance_.symbols,
                          {operands, "static_cast<i64>(t.row(i))", "static_cast<i64>(t.col(i))",
                           "static_cast<i64>(t.rows())", "static_cast<i64>(t.columns())"});
      if (!scalar(id) && escapes_[id])
        line(fmt::format("  {}[i] = {};", name(id), value));
      else
        line(fmt::format("{}const {} {} = {};", scalar(id) ? "" : "  ",
                         type_text(program_.info[id].number), name(id), value));
    }
    if (!scalar(first)) line("}");
  }

  /// `id` as a whole fragment of a width, for the driver's calls.
  std::string array(ValueId id, int count, const char* type, const std::string& tag) {
    const bool same = !scalar(id) && !by_rows(id) &&
                      type_text(program_.info[id].number) == std::string_view(type);
    if (same) return name(id);
    const std::string to = fmt::format("a{}", tag);
    line(fmt::format("{} {}[{}];", type, to, count));
    loop(count, fmt::format("{}[i] = static_cast<{}>({});", to, type, element(id, false, -1)));
    return to;
  }

  void write_call(ValueId id) {
    const ir::Node& node = program_.nodes[id];
    const char* type = type_text(program_.info[id].number);
    const std::string tag = std::to_string(id);
    const int count = elements(id);
    declare(id);
    if (const auto* n = std::get_if<ir::Split>(&node)) {
      const std::string from = array(n->arg, 2 * count, type, tag), other = "o" + tag;
      line(fmt::format("{} {}[{}];", type, other, count));
      line(fmt::format("split_columns<{}>({}, {}, {});", pair_, from, n->part ? other : name(id),
                       n->part ? name(id) : other));
    } else if (const auto* n = std::get_if<ir::Join>(&node)) {
      const std::string a = array(n->a, count / 2, type, tag + "a"),
                        b = array(n->b, count / 2, type, tag + "b");
      line(fmt::format("join_columns<{}>({}, {}, {});", pair_, a, b, name(id)));
    } else if (const auto* n = std::get_if<ir::Swap>(&node)) {
      const std::string from = array(n->arg, count, type, tag);
      const char* width = text_of(width_of(program_.info[id].dims.columns));
      line(fmt::format("{0} x{1}[{2}], y{1}[{2}];", type, tag, count / 2));
      line(fmt::format("split_columns<{0}>({1}, x{2}, y{2});", pair_, from, tag));
      line(fmt::format("join_columns<{0}>(y{2}, x{2}, {1});", pair_, name(id), tag));
      loop(count, fmt::format("if (t.template col<Width::{}>(i) % {} >= {}) {}[i] = {}[i];", width,
                              size_of_symbols(instance_, n->group), 2 * pair_, name(id), from));
    } else {
      const auto& reduce = std::get<ir::Reduce>(node);
      const bool real = program_.info[id].number == Number::real;
      const std::string to = real ? name(id) : "f" + tag;
      if (!real) line(fmt::format("float {}[{}];", to, count));
      line(fmt::format("t.template folded<{}>({});", port_of(-1, id), to));
      if (!real) loop(count, fmt::format("{}[i] = static_cast<i64>({}[i]);", name(id), to));
      if (reduce.op == ReduceOp::mean)
        loop(count, fmt::format("{}[i] = {}[i] / {}.f;", name(id), to,
                                size_of_symbols(instance_, reduce.kept.columns.size)));
    }
  }

  void write_result(int index) {
    const FusedPort& port = ports_[index];
    const ValueId id = value_of(port);
    const Columns& columns = port.output >= 0 ? program_.outputs[port.output].dims.columns
                                              : program_.info[id].dims.columns;
    static constexpr const char* kCalls[] = {"",       "store",  "",     "", "",         "",
                                             "keep_m", "keep_n", "fold", "", "group_out"};
    const std::string from = array(id, fragment(columns), "float", fmt::format("p{}", index));
    line(fmt::format("t.template {}<{}>({});", kCalls[static_cast<int>(port.port.kind)], index,
                     from));
  }

  struct Step {
    bool loop;
    std::vector<ValueId> nodes;
  };

  const Instance& instance_;
  const Program& program_;
  std::vector<ValueId> nodes_;
  int pair_;
  std::vector<FusedPort> ports_;
  std::vector<TilePartial> partials_;
  std::vector<Step> steps_;
  std::vector<int> step_of_;
  std::vector<bool> escapes_;  // read outside its loop
  std::string text_;
};

}  // namespace

std::vector<FusedPort> fused_ports(const Instance& instance) {
  const Program program = ir::eliminate(*instance.program);
  return Emitter(instance, program, pair_of(instance)).ports();
}

Fused generate_fused(const Instance& instance, device::Config config, const std::string& name,
                     const std::vector<device::Seams>& seams) {
  const Program program = ir::eliminate(*instance.program);
  const int pair = pair_of(instance);
  if (pair != 0 || config.pair != device::kNarrow) config.pair = pair;
  Emitter emitter(instance, program, config.pair);
  emitter.cut_ports(seams);
  config.passes = emitter.passes();
  std::vector<Port> table;
  for (const FusedPort& port : emitter.ports()) table.push_back(port.port);
  if (const char* problem = plan_problem(config, table.data(), static_cast<int>(table.size())))
    throw Error(ErrorKind::internal, "cuda codegen", "a configuration that can be built", problem);
  std::string ports;
  for (const FusedPort& port : emitter.ports()) ports += "      " + port_text(port.port) + ",\n";
  Fused result;
  result.text = fmt::format(
      "struct {0}_Program {{\n  static constexpr Config config = {1};\n  static constexpr Port "
      "ports[] = {{\n{2}  }};\n"
      "  template <int Pass, class Strip>\n  static CODA_DEVICE void apply(Strip& t, const float "
      "(&acc)[{3}][{4}]) {{\n"
      "{5}  }}\n}};\nCODA_KERNEL({0}, {0}_Program)\n\n",
      name, config_text(config), ports, config.accumulators,
      4 * device::strip_blocks(config.pair, Width::full), emitter.body());
  result.ports = emitter.ports();
  result.finish = generate_finish(instance, name + "_finish", emitter.partials());
  return result;
}

}  // namespace coda::cuda

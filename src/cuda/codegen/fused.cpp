// SPDX-License-Identifier: Apache-2.0
#include "cuda/codegen/fused.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>

#include "cuda/lower/fragments.h"
#include "cuda/plan/problem.h"
#include "cuda/plan/text.h"
#include "cuda/scalar/op_text.h"
#include "cuda/scalar/operands.h"

namespace coda::cuda {
namespace {

using device::Kind;
using device::Port;
using device::Width;
using ir::Columns;
using ir::Number;
using ir::Program;
using ir::ValueId;

/// The function of `Strip` that serves ports of a kind.
const char* call_of(Kind kind) {
  static constexpr const char* kCalls[] = {"load",   "store",    "row_vector", "col_vector",
                                           "scalar", "number",   "keep_m",     "keep_n",
                                           "fold",   "group_in", "group_out"};
  return kCalls[static_cast<int>(kind)];
}

/// Writes `apply`, step by step.
class Printer {
 public:
  Printer(const Instance& instance, const LoweredFused& lowered)
      : instance_(instance), lowered_(lowered), program_(lowered.program) {}

  std::string body() {
    if (lowered_.passes.size() == 1) return pass(lowered_.passes[0]);
    return "    if constexpr (Pass == 0) {\n" + pass(lowered_.passes[0]) + "    } else {\n" +
           pass(lowered_.passes[1]) + "    }\n";
  }

 private:
  std::string pass(const FusedPass& pass) {
    pass_ = &pass;
    text_.clear();
    for (const FusedStep& step : pass.steps) switch (step.kind) {
        case FusedStep::Kind::load:
          load(step.values[0], step.port);
          break;
        case FusedStep::Kind::loop:
          values(step.values);
          break;
        case FusedStep::Kind::call:
          call(step.values[0], step.port);
          break;
        case FusedStep::Kind::result:
          result(step.values[0], step.port);
          break;
      }
    return std::move(text_);
  }

  std::string name(ValueId id) const {
    const auto* n = std::get_if<ir::InputValue>(&program_.nodes[id]);
    const auto accumulator = [](const ir::Input& input) {
      return input.kind == ir::Input::Kind::accumulator;
    };
    if (!n || !accumulator(program_.inputs[n->input])) return fmt::format("v{}", id);
    const auto first = program_.inputs.begin();
    return fmt::format("acc[{}]", std::count_if(first, first + n->input, accumulator));
  }
  const char* type(ValueId id) const { return type_text(program_.info[id].number); }

  void line(const std::string& text) { text_ += "    " + text + "\n"; }
  void declare(const char* type, const std::string& name, int count) {
    line(fmt::format("{} {}[{}];", type, name, count));
  }
  void loop(int count, const std::string& statement) {
    line("#pragma unroll");
    line(fmt::format("for (int i = 0; i < {}; ++i) {}", count, statement));
  }

  void load(ValueId id, int index) {
    const Port& port = lowered_.ports[index].port;
    const char* call = call_of(port.kind);
    if (lowered_.number(id))
      return line(fmt::format("const float {} = t.template {}<{}>();", name(id), call, index));
    const int count = lowered_.elements(id);
    declare(type(id), name(id), count);
    if (program_.info[id].number == Number::real)
      return line(fmt::format("t.template {}<{}>({});", call, index, name(id)));
    // integers arrive in the driver's type; bytes of a tile pass through float, exactly
    const bool word = port.kind != Kind::tile_in;
    const std::string raw = fmt::format("n{}", id);
    declare(word && port.type == device::Type::i64   ? "i64"
            : word && port.type == device::Type::i32 ? "int"
                                                     : "float",
            raw, count);
    line(fmt::format("t.template {}<{}>({});", call, index, raw));
    loop(count, fmt::format("{}[i] = static_cast<i64>({}[i]);", name(id), raw));
  }

  /// The element of `id` that belongs to element i of a loop over rows or over a fragment.
  std::string element(ValueId id, bool rows) const {
    if (lowered_.number(id) || !pass_->arrays[id]) return name(id);
    return name(id) + (lowered_.by_rows(id) && !rows ? "[i & 2]" : "[i]");
  }

  void values(const std::vector<ValueId>& ids) {
    const bool number = lowered_.number(ids[0]);
    if (!number) {
      for (ValueId id : ids)
        if (pass_->arrays[id]) declare(type(id), name(id), lowered_.elements(id));
      loop(lowered_.elements(ids[0]), "{");
    }
    for (ValueId id : ids) {
      std::vector<std::string> operands;
      for (ValueId operand : expression_operands(program_, id))
        operands.push_back(element(operand, lowered_.by_rows(id)));
      const std::string value =
          expression_text(program_, id, instance_.type, instance_.symbols,
                          {operands, "static_cast<i64>(t.row(i))", "static_cast<i64>(t.col(i))",
                           "static_cast<i64>(t.rows())", "static_cast<i64>(t.columns())"});
      if (!number && pass_->arrays[id])
        line(fmt::format("  {}[i] = {};", name(id), value));
      else
        line(fmt::format("{}const {} {} = {};", number ? "" : "  ", type(id), name(id), value));
    }
    if (!number) line("}");
  }

  /// `id` as a whole fragment of a type, for the driver's calls.
  std::string array(ValueId id, int count, const char* wanted, const std::string& tag) {
    if (!lowered_.number(id) && !lowered_.by_rows(id) && type(id) == std::string_view(wanted))
      return name(id);
    const std::string to = "a" + tag;
    declare(wanted, to, count);
    loop(count, fmt::format("{}[i] = static_cast<{}>({});", to, wanted, element(id, false)));
    return to;
  }

  void call(ValueId id, int port) {
    declare(type(id), name(id), lowered_.elements(id));
    std::visit(ir::Overloaded{
                   [&](const ir::Split& n) { split(id, n); },
                   [&](const ir::Join& n) { join(id, n); }, [&](const ir::Swap& n) { swap(id, n); },
                   [&](const ir::Reduce& n) { folded(id, n, port); }, [](const auto&) {}},
               program_.nodes[id]);
  }
  void split(ValueId id, const ir::Split& n) {
    const std::string tag = std::to_string(id), other = "o" + tag;
    const int count = lowered_.elements(id);
    const std::string from = array(n.arg, 2 * count, type(id), tag);
    declare(type(id), other, count);
    line(fmt::format("split_columns<{}>({}, {}, {});", lowered_.pair, from,
                     n.part ? other : name(id), n.part ? name(id) : other));
  }
  void join(ValueId id, const ir::Join& n) {
    const std::string tag = std::to_string(id);
    const int count = lowered_.elements(id) / 2;
    const std::string a = array(n.a, count, type(id), tag + "a"),
                      b = array(n.b, count, type(id), tag + "b");
    line(fmt::format("join_columns<{}>({}, {}, {});", lowered_.pair, a, b, name(id)));
  }
  void swap(ValueId id, const ir::Swap& n) {
    const int count = lowered_.elements(id);
    const std::string from = array(n.arg, count, type(id), std::to_string(id));
    line(fmt::format("{0} x{1}[{2}], y{1}[{2}];", type(id), id, count / 2));
    line(fmt::format("split_columns<{0}>({1}, x{2}, y{2});", lowered_.pair, from, id));
    line(fmt::format("join_columns<{0}>(y{2}, x{2}, {1});", lowered_.pair, name(id), id));
    loop(count, fmt::format("if (t.template col<Width::{}>(i) % {} >= {}) {}[i] = {}[i];",
                            text_of(width_of(program_.info[id].dims.columns)),
                            known_size(instance_, n.group), 2 * lowered_.pair, name(id), from));
  }
  void folded(ValueId id, const ir::Reduce& n, int port) {
    const int count = lowered_.elements(id);
    const bool real = program_.info[id].number == Number::real;
    const std::string to = real ? name(id) : fmt::format("f{}", id);
    if (!real) declare("float", to, count);
    line(fmt::format("t.template folded<{}>({});", port, to));
    if (!real) loop(count, fmt::format("{}[i] = static_cast<i64>({}[i]);", name(id), to));
    if (n.op == ir::ReduceOp::mean)
      loop(count, fmt::format("{}[i] = {}[i] / {}.f;", name(id), to,
                              known_size(instance_, n.kept.columns.size)));
  }

  void result(ValueId id, int index) {
    const std::string from = array(id, lowered_.fragment(lowered_.result_columns(index)), "float",
                                   fmt::format("p{}", index));
    line(fmt::format("t.template {}<{}>({});", call_of(lowered_.ports[index].port.kind), index,
                     from));
  }

  const Instance& instance_;
  const LoweredFused& lowered_;
  const Program& program_;
  const FusedPass* pass_ = nullptr;
  std::string text_;
};

}  // namespace

Fused generate_fused(const Instance& instance, device::Config config, const std::string& name,
                     const std::vector<device::Seams>& seams) {
  LoweredFused lowered = lower_fused(instance, config.pair == device::kNarrow);
  config.pair = lowered.pair;
  config.passes = static_cast<int>(lowered.passes.size());
  for (size_t i = 0; i < seams.size(); ++i) lowered.ports.at(i).port.seams = seams[i];
  std::vector<Port> ports;
  std::string table;
  for (const FusedPort& port : lowered.ports) {
    ports.push_back(port.port);
    table += "      " + port_text(port.port) + ",\n";
  }
  if (const char* why = plan_problem(config, ports.data(), static_cast<int>(ports.size())))
    throw Error(ErrorKind::internal, "cuda codegen", "a configuration that can be built", why);
  Fused result;
  result.text = fmt::format(
      "struct {0}_Program {{\n  static constexpr Config config = {1};\n  static constexpr Port "
      "ports[] = {{\n{2}  }};\n"
      "  template <int Pass, class Strip>\n  static CODA_DEVICE void apply(Strip& t, const float "
      "(&acc)[{3}][{4}]) {{\n"
      "{5}  }}\n}};\nCODA_KERNEL({0}, {0}_Program)\n\n",
      name, config_text(config), table, config.accumulators,
      4 * device::strip_blocks(config.pair, Width::full), Printer(instance, lowered).body());
  result.finish = generate_finish(instance, name + "_finish", lowered.partials);
  result.ports = std::move(lowered.ports);
  return result;
}

}  // namespace coda::cuda

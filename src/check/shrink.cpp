// SPDX-License-Identifier: Apache-2.0
#include "check/shrink.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "check/draw.h"
#include "ir/builder.h"
#include "ir/simplify.h"
#include "language/parser.h"
#include "language/printer.h"

namespace coda::check {
namespace {

using ir::ValueId;

/// The program with `replace(builder, id, operands)` in the place of nodes for which it gives a
/// value. Nothing where the result is no valid program.
template <class Replace>
std::optional<ir::Program> rebuild(const ir::Program& program, const std::vector<bool>& outputs,
                                   const Replace& replace) {
  try {
    ir::Builder builder(program.name);
    for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i)
      builder.size_parameter(program.symbols[i]);
    std::vector<Value> values;
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      const ir::Node& node = program.nodes[i];
      if (const auto* load = std::get_if<ir::InputValue>(&node)) {
        values.push_back(builder.input(program.inputs[load->input]));
        continue;
      }
      const auto map = [&](ValueId id) { return builder.id(values[id]); };
      std::optional<Value> value = replace(builder, static_cast<ValueId>(i), values);
      values.push_back(value ? *value : builder.node(ir::with_operands(node, map)));
    }
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      if (!outputs[o]) continue;
      ir::Output output = program.outputs[o];
      output.value = builder.id(values[output.value]);
      builder.output(output);
    }
    return ir::drop_unused_inputs(ir::eliminate(builder.finish()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Value> keep(ir::Builder&, ValueId, const std::vector<Value>&) { return std::nullopt; }

class Shrinker {
 public:
  Shrinker(Failure failure, const Fails& fails) : best_(std::move(failure)), fails_(fails) {}

  Failure run() {
    while (drop_outputs() || store_earlier() || replace_nodes() || reduce_sizes()) {
    }
    return std::move(best_);
  }

 private:
  bool accept(std::optional<ir::Program> program, const Case& c) {
    if (!program) return false;
    try {
      if (!fails_(*program, c)) return false;
    } catch (const std::exception&) {
      return false;
    }
    best_ = {std::move(*program), c};
    return true;
  }

  bool drop_outputs() {
    const size_t count = best_.program.outputs.size();
    if (count == 1) return false;
    for (size_t kept = 0; kept < count; ++kept) {
      std::vector<bool> one(count, false);
      one[kept] = true;
      if (accept(rebuild(best_.program, one, keep), best_.c)) return true;
    }
    for (size_t dropped = 0; dropped < count; ++dropped) {
      std::vector<bool> others(count, true);
      others[dropped] = false;
      if (accept(rebuild(best_.program, others, keep), best_.c)) return true;
    }
    return false;
  }

  /// An earlier value as the only output, in a type that holds it exactly.
  bool store_earlier() {
    if (best_.program.outputs.size() > 1) return false;
    for (ValueId id = 0; id < best_.program.outputs[0].value; ++id) {
      if (ir::operands(best_.program.nodes[id]).empty()) continue;
      ir::Program candidate = best_.program;
      const ir::ValueInfo& info = candidate.info[id];
      const DType type = info.number == ir::Number::real ? DType::f32 : DType::i64;
      candidate.outputs = {{"y", {false, type}, info.dims, id}};
      if (accept(rebuild(candidate, {true}, keep), best_.c)) return true;
    }
    return false;
  }

  /// Each node by one of its operands, then by a constant, the last nodes first.
  bool replace_nodes() {
    const std::vector<bool> all(best_.program.outputs.size(), true);
    for (size_t i = best_.program.nodes.size(); i-- > 0;) {
      const ValueId target = static_cast<ValueId>(i);
      const std::vector<ValueId> operands = ir::operands(best_.program.nodes[i]);
      if (operands.empty()) continue;
      const auto size = best_.program.nodes.size();
      const auto smaller = [&](const std::optional<ir::Program>& p) {
        return p && p->nodes.size() < size;
      };
      for (const ValueId operand : operands) {
        auto candidate = rebuild(
            best_.program, all, [&](ir::Builder&, ValueId id, const std::vector<Value>& values) {
              return id == target ? std::optional(values[operand]) : std::nullopt;
            });
        if (smaller(candidate) && accept(std::move(candidate), best_.c)) return true;
      }
      auto constant = rebuild(
          best_.program, all, [&](ir::Builder& builder, ValueId id, const std::vector<Value>&) {
            return id == target ? std::optional(builder.real(0.5)) : std::nullopt;
          });
      if (smaller(constant) && accept(std::move(constant), best_.c)) return true;
    }
    return false;
  }

  bool reduce_sizes() {
    const auto with = [&](auto change) {
      Case c = best_.c;
      change(c);
      return accept(best_.program, c);
    };
    for (const int64_t m : {int64_t{1}, best_.c.m / 2, best_.c.m - 1})
      if (m > 0 && m < best_.c.m && with([&](Case& c) { c.m = m; })) return true;
    const int64_t unit =
        column_unit(best_.program, draw_sizes(best_.program, {}, best_.c.n, best_.c.seed));
    for (const int64_t n : {unit, best_.c.n / 2 / unit * unit, best_.c.n - unit})
      if (n > 0 && n < best_.c.n && with([&](Case& c) { c.n = n; })) return true;
    for (const int64_t k : {int64_t{0}, int64_t{1}, best_.c.k / 2})
      if (k < best_.c.k && with([&](Case& c) { c.k = k; })) return true;
    return best_.c.type != DType::f32 && with([](Case& c) { c.type = DType::f32; });
  }

  Failure best_;
  const Fails& fails_;
};

}  // namespace

Failure shrink(Failure failure, const Fails& fails) {
  return Shrinker(std::move(failure), fails).run();
}

std::string regression_text(const Failure& failure, const std::map<std::string, int64_t>& sizes) {
  std::string line = fmt::format("# case {} seed {}", to_string(failure.c), failure.c.seed);
  for (const auto& [name, value] : sizes) line += fmt::format(" {}={}", name, value);
  return line + "\n" + language::print(failure.program);
}

Regression parse_regression(std::string_view text, std::string_view filename) {
  Regression result;
  std::istringstream line(std::string(text.substr(0, text.find('\n'))));
  std::string mark, word, c, seed;
  line >> mark >> word >> c >> word >> seed;
  if (mark != "#" || seed.empty())
    throw Error(ErrorKind::syntax, filename,
                "a first line '# case MxNxK:TYPE seed S NAME=SIZE ...'",
                std::string(text.substr(0, text.find('\n'))));
  result.c = parse_case(c);
  result.c.seed = std::stoull(seed);
  while (line >> word)
    result.sizes[word.substr(0, word.find('='))] = std::stoll(word.substr(word.find('=') + 1));
  result.program = language::parse_file(text, filename).at(0);
  return result;
}

}  // namespace coda::check

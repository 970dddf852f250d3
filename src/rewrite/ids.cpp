// SPDX-License-Identifier: Apache-2.0
// Which inputs hold ids and labels. A program compares them with columns and would take one that
// is out of range for none of them, a loss without its label; so whoever runs a plan looks first.
// Of ids and labels that a graph computes it takes those alone that cannot be out of range: choices
// (where) between inputs, which are looked at, and constants, and what min, max, clamp and % bound.
#include <coda/error.h>

#include <algorithm>
#include <limits>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::Op;
using ir::ValueId;

/// What an integer may be, ends included.
struct Range {
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
};

Range range_of(const ir::Elementwise& node, const std::vector<Range>& known) {
  const Range a = known[node.args[0]];
  const Range b = ir::info(node.op).arity > 1 ? known[node.args[1]] : a;
  const Range c = ir::info(node.op).arity > 2 ? known[node.args[2]] : b;
  const auto lesser = [](Range x, Range y) {
    return Range{std::min(x.low, y.low), std::min(x.high, y.high)};
  };
  const auto greater = [](Range x, Range y) {
    return Range{std::max(x.low, y.low), std::max(x.high, y.high)};
  };
  switch (node.op) {
    case Op::min:
      return lesser(a, b);
    case Op::max:
      return greater(a, b);
    case Op::clamp:
      return lesser(greater(a, b), c);
    case Op::rem:  // rounds down: of the sign of a divisor that is not 0
      return b.low > 0 ? Range{0, b.high - 1} : Range{};
    case Op::where:
      return {std::min(b.low, c.low), std::max(b.high, c.high)};
    default:
      return ir::info(node.op).kind == ir::OpKind::compare ? Range{0, 1} : Range{};
  }
}

std::vector<Range> ranges(const ir::Program& graph) {
  std::vector<Range> result(graph.nodes.size());
  for (size_t v = 0; v < result.size(); ++v) {
    if (const auto* n = std::get_if<ir::IntegerConstant>(&graph.nodes[v]))
      result[v] = {n->value, n->value};
    if (const auto* n = std::get_if<ir::Elementwise>(&graph.nodes[v]))
      result[v] = range_of(*n, result);
    if (const auto* n = std::get_if<ir::InputValue>(&graph.nodes[v]))
      if (const ir::ElementType type = graph.inputs[n->input].type;
          !type.generic && type.dtype == DType::u8)
        result[v] = {0, 255};
  }
  return result;
}

class Search {
 public:
  Search(const ir::Program& graph, Plan& plan)
      : graph_(graph), plan_(plan), ranges_(ranges(graph)) {}

  void run() {
    for (ValueId v : ir::live_nodes(graph_)) {
      const std::vector<ValueId> args = ir::operands(graph_.nodes[v]);
      if (ir::whole<ir::Embedding>(graph_.nodes[v]))
        find({"embedding", graph_.info[args[1]].weight_rows, std::nullopt}, args[0]);
      const auto* loss = ir::whole<ir::Composite>(graph_.nodes[v]);
      if (loss && (loss->kind == ir::Composite::Kind::cross_entropy ||
                   loss->kind == ir::Composite::Kind::z_loss))
        find({ir::name_of(std::get<ir::Whole>(graph_.nodes[v]).op),
              graph_.info[args[0]].dims.columns.width.numerator, loss->ignored},
             args[1]);
    }
  }

 private:
  struct Use {
    std::string op;
    int64_t count;
    std::optional<int64_t> ignored;
  };

  void find(const Use& use, ValueId v) {
    const Range range = ranges_[v];
    if (range.low >= 0 && range.high < use.count) return;
    if (range.low == range.high && range.low == use.ignored) return;
    if (const auto* input = std::get_if<ir::InputValue>(&graph_.nodes[v]))
      return add(graph_.inputs[input->input].name, use);
    const auto* choice = std::get_if<ir::Elementwise>(&graph_.nodes[v]);
    if (choice && choice->op == Op::where) {
      find(use, choice->args[1]);
      find(use, choice->args[2]);
      return;
    }
    const std::string last = std::to_string(use.count - 1);
    throw Error(
        ErrorKind::unsupported, "[" + use.op + "]",
        "ids or labels that cannot leave 0 to " + last +
            (use.ignored ? ", or be " + std::to_string(*use.ignored) : ""),
        "computed ones that may",
        "make them an input, which is looked at before a run, or bound them: clamp(ids, 0, " +
            last + ")");
  }

  void add(const std::string& name, const Use& use) {
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].role == Buffer::Role::input && plan_.buffers[b].name == name)
        plan_.ids.push_back({static_cast<int>(b), use.count, use.ignored});
  }

  const ir::Program& graph_;
  Plan& plan_;
  const std::vector<Range> ranges_;
};

}  // namespace

void find_ids(const ir::Program& graph, Plan& plan) { Search(graph, plan).run(); }

}  // namespace coda::rewrite

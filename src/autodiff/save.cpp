// SPDX-License-Identifier: Apache-2.0
#include "autodiff/save.h"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

namespace coda::autodiff {

using ir::Columns;
using ir::Program;
using ir::ValueId;

namespace {

constexpr int64_t kInfinite = int64_t{1} << 50;
constexpr int64_t kNewOutput = 512;  // a small value is loaded in parts rather than stored whole
constexpr int64_t kNonlinear = 64;   // rather the value before than the one after tanh, exp, ...

/// Relative traffic of one load; a full-width tile is 4096, in a graph its number of columns.
int64_t load_cost(const ir::ValueInfo& info) {
  const Columns& columns = info.dims.columns;
  if (info.weight_rows != 0) return 1;
  if (columns.kind == Columns::Kind::none) return info.dims.rows ? 8 : 1;
  const int64_t width = 4096 * columns.width.numerator / columns.width.denominator;
  const int64_t count = columns.kind == Columns::Kind::all ? width : width / 16;
  return info.dims.rows ? count : 16;
}

/// What it costs to store `id` for the backward pass and to load it there. A value rounded behind a
/// function that flattens or explodes (tanh near 1, exp) keeps less of what gradients need than the
/// one before it.
int64_t save_cost(const Program& program, ValueId id) {
  const auto* node = std::get_if<ir::Elementwise>(&program.nodes[id]);
  const bool nonlinear =
      node && ir::info(node->op).kind == ir::OpKind::real && node->op != ir::Op::div;
  return 2 * load_cost(program.info[id]) + kNewOutput + (nonlinear ? kNonlinear : 0);
}

/// A flow network of few nodes; augmenting paths found breadth first.
class Network {
 public:
  explicit Network(int nodes) : edges_(nodes) {}

  void edge(int from, int to, int64_t capacity) {
    edges_[from].push_back({to, static_cast<int>(edges_[to].size()), capacity});
    edges_[to].push_back({from, static_cast<int>(edges_[from].size()) - 1, 0});
  }

  void saturate(int source, int sink) {
    for (;;) {
      std::vector<std::pair<int, int>> parent(edges_.size(), {-1, -1});
      std::queue<int> open({source});
      while (!open.empty() && parent[sink].first < 0) {
        const int at = open.front();
        open.pop();
        for (size_t e = 0; e < edges_[at].size(); ++e) {
          const Edge& edge = edges_[at][e];
          if (edge.capacity > 0 && parent[edge.to].first < 0 && edge.to != source) {
            parent[edge.to] = {at, static_cast<int>(e)};
            open.push(edge.to);
          }
        }
      }
      if (parent[sink].first < 0) return;
      int64_t flow = kInfinite;
      for (int at = sink; at != source; at = parent[at].first)
        flow = std::min(flow, edges_[parent[at].first][parent[at].second].capacity);
      for (int at = sink; at != source; at = parent[at].first) {
        Edge& edge = edges_[parent[at].first][parent[at].second];
        edge.capacity -= flow;
        edges_[at][edge.reverse].capacity += flow;
      }
    }
  }

  /// Nodes from which the sink can still be reached: the side of the cut nearest to it.
  std::vector<bool> reaching(int sink) const {
    std::vector<bool> result(edges_.size());
    std::queue<int> open({sink});
    result[sink] = true;
    while (!open.empty()) {
      const int at = open.front();
      open.pop();
      for (const Edge& edge : edges_[at])
        if (edges_[edge.to][edge.reverse].capacity > 0 && !result[edge.to]) {
          result[edge.to] = true;
          open.push(edge.to);
        }
    }
    return result;
  }

 private:
  struct Edge {
    int to, reverse;
    int64_t capacity;
  };
  std::vector<std::vector<Edge>> edges_;
};

/// Whether a value takes whole matrices to compute again.
bool is_finished(const Program& program, ValueId id, const WideProducts& wide) {
  const ir::Node& node = program.nodes[id];
  const ir::ValueInfo& info = program.info[id];
  if (const auto* n = std::get_if<ir::Reduce>(&node))
    return program.graph ? n->kept.columns.kind != Columns::Kind::group
                         : info.stage == ir::Stage::complete;
  const auto* n = std::get_if<ir::Whole>(&node);
  if (!n || std::holds_alternative<ir::Concat>(n->op) || std::holds_alternative<ir::Slice>(n->op) ||
      std::holds_alternative<ir::Repeat>(n->op))
    return false;
  return !(wide.recomputed && wide.products.count(id));
}

}  // namespace

int stored_output(const Program& program, ValueId id) {
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const ir::Output& output = program.outputs[i];
    const bool real = program.info[id].number == ir::Number::real;
    const bool exact = output.type.generic ||
                       (real ? size_of(output.type.dtype) > 1 : !is_float(output.type.dtype));
    if (output.value == id && exact && output.dims == program.info[id].dims)
      return static_cast<int>(i);
  }
  return -1;
}

namespace {

/// The minimum cut, where the values of `kept` are loaded whatever follows from others.
std::set<ValueId> cheapest(const Program& program, const std::set<ValueId>& needed,
                           const WideProducts& wide, const std::set<ValueId>& kept) {
  const int count = static_cast<int>(program.nodes.size());
  const int source = 2 * count, sink = source + 1;
  Network network(sink + 1);
  // The operand of attention is in memory as it is; so is that of a product made in chunks.
  std::set<ValueId> read;
  for (int i = 0; i < count; ++i)
    if (ir::whole<ir::Attention>(program.nodes[i]) || wide.products.count(i))
      read.insert(ir::operands(program.nodes[i])[0]);
  for (int i = 0; i < count; ++i) {
    const auto* input = std::get_if<ir::InputValue>(&program.nodes[i]);
    const bool accumulator =
        input && program.inputs[input->input].kind == ir::Input::Kind::accumulator;
    const bool at_hand = (input && !accumulator) || stored_output(program, i) >= 0 || program.graph;
    const int64_t cost = at_hand ? load_cost(program.info[i]) : save_cost(program, i);
    network.edge(2 * i, 2 * i + 1, cost);
    const bool finished = is_finished(program, i, wide) || kept.count(i) > 0;
    if (input || finished) network.edge(source, 2 * i, kInfinite);
    if (!finished)
      for (ValueId id : ir::operands(program.nodes[i])) network.edge(2 * id + 1, 2 * i, kInfinite);
    if (needed.count(i) && !read.count(i)) network.edge(2 * i + 1, sink, kInfinite);
  }
  network.saturate(source, sink);
  const std::vector<bool> near_sink = network.reaching(sink);
  std::set<ValueId> result;
  for (int i = 0; i < count; ++i)
    if ((near_sink[2 * i + 1] && !near_sink[2 * i]) || (needed.count(i) && read.count(i)))
      result.insert(i);
  return result;
}

/// Values of `needed` that take more than two others of their width: who makes them again loads
/// those, and a sum that every layer adds to would load one of each layer below it.
std::set<ValueId> far_from(const Program& program, const std::set<ValueId>& needed,
                           const std::set<ValueId>& loads) {
  std::set<ValueId> result;
  std::vector<std::set<ValueId>> sources(program.nodes.size());  // matrices
  const auto matrix = [&](ValueId id) {
    const ir::Dims& dims = program.info[id].dims;
    return dims.rows && dims.columns.kind == Columns::Kind::all;
  };
  for (ValueId i = 0; i < static_cast<ValueId>(program.nodes.size()); ++i) {
    const bool input = std::holds_alternative<ir::InputValue>(program.nodes[i]);
    std::set<ValueId>& mine = sources[i];
    if (!input && loads.count(i) == 0) {
      for (ValueId id : ir::operands(program.nodes[i]))
        mine.insert(sources[id].begin(), sources[id].end());
      int64_t cost = 0;
      for (ValueId id : mine) cost += load_cost(program.info[id]);
      if (needed.count(i) == 0 || !matrix(i) || cost <= 2 * load_cost(program.info[i])) continue;
      result.insert(i);
    }
    mine.clear();
    if (matrix(i)) mine.insert(i);
  }
  return result;
}

}  // namespace

std::set<ValueId> choose_loads(const Program& program, const std::set<ValueId>& needed,
                               const WideProducts& wide) {
  std::set<ValueId> kept;
  for (;;) {
    std::set<ValueId> loads = cheapest(program, needed, wide, kept);
    if (!program.graph) return loads;
    const std::set<ValueId> far = far_from(program, needed, loads);
    if (far.empty()) return loads;
    kept.insert(far.begin(), far.end());
  }
}

}  // namespace coda::autodiff

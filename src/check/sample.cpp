// SPDX-License-Identifier: Apache-2.0
#include "check/sample.h"

#include <algorithm>
#include <numeric>

#include "call/divisibility.h"
#include "check/draw.h"

namespace coda::check {
namespace {

using Kind = ir::Columns::Kind;

bool has_symbol(const ir::Size& size, int symbol) {
  return std::any_of(size.powers.begin(), size.powers.end(),
                     [&](const auto& power) { return power.first == symbol; });
}

/// Groups, pairs and repeats of so many columns as the call has are no others in a part.
Reach reach_of(const ir::Size& size) {
  return {has_symbol(size, ir::kSymbolM), has_symbol(size, ir::kSymbolN)};
}

Reach operator|(Reach a, Reach b) { return {a.rows || b.rows, a.columns || b.columns}; }

Reach reach_of(const ir::Dims& dims) {
  const bool sized = dims.columns.kind == Kind::group || dims.columns.kind == Kind::repeat;
  return sized ? reach_of(dims.columns.size) : Reach{};
}

Reach reach_of(const ir::Reduce& node, const ir::Dims& from) {
  const ir::Columns &have = from.columns, &kept = node.kept.columns;
  Reach reach = reach_of(node.kept);
  reach.rows = reach.rows || (from.rows && !node.kept.rows);
  if (have.kind == Kind::none || kept == have) return reach;
  const bool over_all = kept.kind == Kind::none || kept.kind == Kind::repeat;
  // What argmax gives in a group counts from the first column of all.
  const bool counts = kept.kind == Kind::group && node.op == ir::ReduceOp::argmax;
  reach.columns = reach.columns || over_all || counts;
  return reach;
}

/// Columns of N after which both the units and all repeating tables begin anew.
int64_t period_of(const ir::Program& program, std::span<const int64_t> symbols, int64_t unit) {
  int64_t period = unit;
  const auto add = [&](const ir::Dims& dims) {
    if (dims.columns.kind != Kind::repeat) return;
    const auto [numerator, denominator] = factor_of_n(dims.columns.width);
    const int64_t size = ir::evaluate(dims.columns.size, symbols, "a repeat") * denominator;
    period = std::lcm(period, size / std::gcd(size, numerator));
  };
  for (const ir::ValueInfo& value : program.info) add(value.dims);
  for (const ir::Output& output : program.outputs) add(output.dims);
  for (const ir::Node& node : program.nodes)
    if (const auto* reduce = std::get_if<ir::Reduce>(&node)) add(reduce->kept);
  return period;
}

bool tells(const Part& part, Reach reach, std::span<const int64_t> symbols) {
  return (!reach.rows || part.rows.size() == symbols[ir::kSymbolM]) &&
         (!reach.columns || part.columns.size() == symbols[ir::kSymbolN]);
}

/// The first lies at the beginning, the second at the end, others anywhere; both ends are
/// multiples of `period`, or the end of all.
Range place(int index, int64_t size, int64_t period, int64_t total, Random& random) {
  const int64_t places = (total - std::min(size, total)) / period + 1;
  const int64_t at = index == 0 ? 0 : index == 1 ? places - 1 : random.below(places);
  const bool last = at == places - 1;
  return {at * period, last ? total : std::min(at * period + size, total)};
}

}  // namespace

std::vector<Reach> reaches_of(const ir::Program& program) {
  std::vector<Reach> reaches(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ir::Node& node = program.nodes[i];
    Reach& reach = reaches[i];
    reach = reach_of(program.info[i].dims);
    for (const ir::ValueId id : ir::operands(node)) reach = reach | reaches[id];
    if (const auto* reduce = std::get_if<ir::Reduce>(&node))
      reach = reach | reach_of(*reduce, program.info[reduce->arg].dims);
    if (const auto* split = std::get_if<ir::Split>(&node)) reach = reach | reach_of(split->half);
    if (const auto* join = std::get_if<ir::Join>(&node)) reach = reach | reach_of(join->half);
    if (const auto* swap = std::get_if<ir::Swap>(&node))
      reach = reach | reach_of(swap->half) | reach_of(swap->group);
  }
  std::vector<Reach> result;
  for (const ir::Output& output : program.outputs)
    result.push_back(reaches[output.value] | reach_of(output.dims));
  return result;
}

Samples choose_samples(const ir::Program& program, std::span<const int64_t> symbols, int64_t depth,
                       const SampleCounts& counts, uint64_t seed) {
  constexpr int64_t kRows = 16, kColumns = 64, kFewColumns = 16;
  const int64_t m = symbols[ir::kSymbolM], n = symbols[ir::kSymbolN];
  const std::vector<Reach> reaches = reaches_of(program);
  const int64_t unit = column_unit(program, {symbols.begin(), symbols.end()});
  const int64_t period = period_of(program, symbols, unit);
  Random random(seed, "samples");
  Samples samples;
  const auto add = [&](int count, int64_t rows, int64_t columns) {
    columns = (columns + unit - 1) / unit * unit;
    for (int i = 0; i < count; ++i) {
      const Range where = place(i, rows, 1, m, random);
      samples.parts.push_back({where, place(i, columns, period, n, random)});
    }
  };
  const auto any = [&](bool rows, bool columns) {
    return std::any_of(reaches.begin(), reaches.end(), [&](const Reach& reach) {
      return reach.rows == rows && reach.columns == columns;
    });
  };
  if (any(false, false)) add(counts.chunks, kRows, kColumns);
  if (any(false, true)) add(counts.rows, kRows, n);
  if (any(true, false)) add(counts.columns, m, kFewColumns);
  // Loads and arithmetic count as some products.
  if (any(true, true) &&
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(depth + kColumns) <=
          static_cast<double>(counts.affordable))
    add(1, m, n);
  for (size_t o = 0; o < reaches.size(); ++o)
    if (std::none_of(samples.parts.begin(), samples.parts.end(),
                     [&](const Part& part) { return tells(part, reaches[o], symbols); }))
      samples.uncovered.push_back(program.outputs[o].name);
  return samples;
}

}  // namespace coda::check

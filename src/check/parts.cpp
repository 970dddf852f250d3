// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "check/for_each.h"
#include "check/sample.h"

namespace coda::check {
namespace {

using Kind = ir::Columns::Kind;
using reference::Dense;

Range rows_of(const ir::Dims& dims, const Part& part) {
  return dims.rows ? part.rows : Range{0, 1};
}

/// The columns of a value, of which `part` has columns of N. A repeating table is taken whole.
Range columns_of(const ir::Dims& dims, const Part& part, std::vector<int64_t> symbols) {
  const auto at = [&](int64_t n) {
    symbols[ir::kSymbolN] = n;
    return n == 0 ? 0 : reference::extent(dims, symbols).columns;
  };
  switch (dims.columns.kind) {
    case Kind::none:
      return {0, 1};
    case Kind::repeat:
      return {0, reference::extent(dims, symbols).columns};
    case Kind::all:
    case Kind::group:
      break;
  }
  return {at(part.columns.begin), at(part.columns.end)};
}

/// A part as a program and what evaluates it. Where the whole call's place or size matters, the
/// program reads it from inputs of its own, which stand behind the others.
struct Small {
  ir::Program program;
  std::vector<int64_t> symbols;
  std::vector<Dense> inputs;
};

Dense integers(int64_t rows, int64_t columns, int64_t from) {
  Dense result{rows, columns, {}, {}, {}};
  for (int64_t i = 0; i < result.size(); ++i) result.integer.push_back(from + i);
  return result;
}

void fix_places(Small& small, const Part& part, const std::vector<int64_t>& whole) {
  ir::Program& program = small.program;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    Dense value;
    if (const auto* index = std::get_if<ir::Index>(&program.nodes[i])) {
      const Range range = index->row ? part.rows : columns_of(program.info[i].dims, part, whole);
      value = index->row ? integers(range.size(), 1, range.begin)
                         : integers(1, range.size(), range.begin);
    } else if (const auto* size = std::get_if<ir::SizeParameter>(&program.nodes[i])) {
      value = integers(1, 1, whole[size->symbol]);
    } else {
      continue;
    }
    program.nodes[i] = ir::InputValue{static_cast<int>(program.inputs.size())};
    program.inputs.push_back(
        {"place", ir::Input::Kind::tensor, {false, DType::i64}, program.info[i].dims});
    small.inputs.push_back(std::move(value));
  }
}

class Checker {
 public:
  Checker(const Instance& instance, const BoundCall& call, std::span<const Part> parts,
          const Fetch& fetch, int threads)
      : program_(*instance.program),
        instance_(instance),
        call_(call),
        parts_(parts),
        threads_(threads),
        fetch_([&fetch, this](std::byte* to, const std::byte* from, int64_t width, int64_t pitch,
                              int64_t height) {
          const std::lock_guard lock(mutex_);
          fetch(to, from, width, pitch, height);
        }) {}

  std::vector<Finding> run() {
    std::vector<Small> small(parts_.size());
    for_each(parts_.size(), threads_, [&](size_t i) { small[i] = load(parts_[i]); });
    const std::vector<Block> blocks = blocks_of_products();
    for_each(blocks.size(), threads_, [&](size_t i) { multiply(blocks[i], small); });
    const std::vector<Reach> reaches = reaches_of(program_);
    std::vector<std::vector<Finding>> found(parts_.size());
    for_each(parts_.size(), threads_, [&](size_t i) {
      fix_places(small[i], parts_[i], call_.symbols);
      const std::vector<Dense> expected = reference::evaluate(
          small[i].program, small[i].symbols, small[i].inputs, {.type = instance_.type});
      for (size_t o = 0; o < program_.outputs.size(); ++o)
        if (!(reaches[o].rows && parts_[i].rows.size() != call_.m) &&
            !(reaches[o].columns && parts_[i].columns.size() != call_.n))
          found[i].push_back({i, o, compare(o, parts_[i], expected[o])});
      small[i] = {};
    });
    std::vector<Finding> findings;
    for (const auto& list : found) findings.insert(findings.end(), list.begin(), list.end());
    return findings;
  }

 private:
  /// Of the accumulator of an input in a part; rows and columns count from those of the part.
  struct Block {
    size_t part, input;
    Range rows, columns;
  };

  /// Everything but the products.
  Small load(const Part& part) const {
    Small small{program_, call_.symbols, {}};
    small.symbols[ir::kSymbolM] = part.rows.size();
    small.symbols[ir::kSymbolN] = part.columns.size();
    BoundCall call = call_;
    call.m = part.rows.size(), call.n = part.columns.size();
    std::vector<Cut> cuts;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      call.products[i].clear();
      if (program_.inputs[i].kind != ir::Input::Kind::tensor) continue;
      const ir::Dims& dims = program_.inputs[i].dims;
      cuts.push_back(
          cut(call_.inputs[i], rows_of(dims, part), columns_of(dims, part, call_.symbols), fetch_));
      call.inputs[i] = cuts.back().binding;
    }
    small.inputs = reference::inputs_of(program_, call);
    return small;
  }

  std::vector<Block> blocks_of_products() const {
    constexpr int64_t kRows = 256, kColumns = 512;
    std::vector<Block> blocks;
    for (size_t p = 0; p < parts_.size(); ++p)
      for (size_t i = 0; i < program_.inputs.size(); ++i) {
        if (call_.products[i].empty()) continue;
        const int64_t m = parts_[p].rows.size(), n = parts_[p].columns.size();
        for (int64_t r = 0; r < m; r += kRows)
          for (int64_t c = 0; c < n; c += kColumns)
            blocks.push_back({p, i, {r, std::min(r + kRows, m)}, {c, std::min(c + kColumns, n)}});
      }
    return blocks;
  }

  void multiply(const Block& block, std::vector<Small>& small) const {
    const Part& part = parts_[block.part];
    const auto within = [](Range range, Range whole) {
      return Range{whole.begin + range.begin, whole.begin + range.end};
    };
    std::vector<Cut> cuts;
    std::vector<Product> products;
    for (const Product& product : call_.products[block.input]) {
      cuts.push_back(cut(product.a, within(block.rows, part.rows), {0, product.k}, fetch_));
      cuts.push_back(cut(product.b, within(block.columns, part.columns), {0, product.k}, fetch_));
      products.push_back({product.k, cuts[cuts.size() - 2].binding, cuts.back().binding});
    }
    const Dense sum = reference::accumulate(products, block.rows.size(), block.columns.size());
    Dense& to = small[block.part].inputs[block.input];
    for (int64_t r = 0; r < sum.rows; ++r) {
      const int64_t from = r * sum.columns;
      const int64_t at = (block.rows.begin + r) * to.columns + block.columns.begin;
      std::copy_n(sum.value.begin() + from, sum.columns, to.value.begin() + at);
      std::copy_n(sum.error.begin() + from, sum.columns, to.error.begin() + at);
    }
  }

  reference::Comparison compare(size_t output, const Part& part, const Dense& expected) const {
    const ir::Dims& dims = program_.outputs[output].dims;
    const Range rows = rows_of(dims, part), columns = columns_of(dims, part, call_.symbols);
    const Cut got = cut(call_.outputs[output], rows, columns, fetch_);
    reference::Comparison result = reference::compare(got.binding, expected);
    result.row += rows.begin, result.column += columns.begin;
    return result;
  }

  const ir::Program& program_;
  const Instance& instance_;
  const BoundCall& call_;
  std::span<const Part> parts_;
  int threads_;
  std::mutex mutex_;
  Fetch fetch_;
};

}  // namespace

Cut cut(const Binding& from, Range rows, Range columns, const Fetch& fetch) {
  const bool by_rows = from.axis == Axis::rows;
  const Range along = by_rows ? rows : columns;
  Cut result{{from.axis, rows.size(), columns.size(), {}}, {}};
  for (const Segment& segment : from.segments) {
    const int64_t begin = std::max(segment.begin, along.begin);
    const int64_t end = std::min(segment.end, along.end);
    if (begin >= end) continue;
    const Range mine{begin - segment.begin, end - segment.begin};
    const Range r = by_rows ? mine : rows, c = by_rows ? columns : mine;
    const View& view = segment.view;
    const auto size = static_cast<int64_t>(size_of(view.dtype));
    const std::byte* const data =
        view.data + (r.begin * view.row_stride + c.begin * view.column_stride) * size;
    // Lines run along the columns, or along the rows where those are neighbours.
    const bool turned = c.size() > 1 && view.column_stride != 1 && view.row_stride == 1;
    const int64_t length = turned ? r.size() : c.size(), lines = turned ? c.size() : r.size();
    const int64_t step = (turned ? view.row_stride : view.column_stride) * size;
    const int64_t pitch = (turned ? view.column_stride : view.row_stride) * size;
    std::vector<std::byte>& memory =
        result.memory.emplace_back(static_cast<size_t>(length * lines * size));
    if (memory.empty()) continue;
    if (length == 1 || step == size)
      fetch(memory.data(), data, length * size, pitch, lines);
    else
      for (int64_t line = 0; line < lines; ++line)
        fetch(memory.data() + line * length * size, data + line * pitch, size, step, length);
    result.binding.segments.push_back(
        {begin - along.begin,
         end - along.begin,
         {memory.data(), turned ? 1 : length, turned ? length : 1, view.dtype}});
  }
  return result;
}

std::vector<Finding> check_parts(const Instance& instance, const BoundCall& call,
                                 std::span<const Part> parts, const Fetch& fetch, int threads) {
  return Checker(instance, call, parts, fetch, threads).run();
}

}  // namespace coda::check

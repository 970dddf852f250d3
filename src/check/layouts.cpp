// SPDX-License-Identifier: Apache-2.0
// Memory for a drawn call. Each tensor lies in a block of its own between two margins; strides,
// padding, base offset and segments are chosen by the seed.
#include <coda/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/convert.h"
#include "check/draw.h"

namespace coda::check {
namespace {

constexpr size_t kMargin = 192;  // bytes on both sides of a tensor
constexpr std::byte kPattern{0xff};

struct Strides {
  int64_t row, column, elements;  // elements spanned
};

/// Matrices: rows after another or columns after another, with or without padding; or every second
/// element. Inputs may repeat one row or element with a stride of 0.
Strides choose_matrix(int64_t rows, int64_t columns, bool output, Random& random) {
  int64_t row = columns, column = 1;
  const double kind = random.uniform();
  if (kind < 0.35) {
  } else if (kind < 0.55) {
    row = columns + 1 + random.below(9);
  } else if (kind < 0.65) {
    row = (columns + 63) / 64 * 64;
  } else if (kind < 0.85) {
    row = 1, column = rows + random.below(2) * random.below(9);
  } else if (kind < 0.93 || output) {
    column = 2, row = 2 * columns + random.below(3);
  } else {
    row = 0;
  }
  row = std::max<int64_t>(row, output ? 1 : 0), column = std::max<int64_t>(column, 1);
  const bool empty = rows == 0 || columns == 0;
  return {row, column, empty ? 0 : (rows - 1) * row + (columns - 1) * column + 1};
}

/// Rows (turned: columns) after another, 16 elements aligned.
Strides choose_aligned_matrix(int64_t rows, int64_t columns, bool turned, Random& random) {
  const int64_t inner = turned ? rows : columns, outer = turned ? columns : rows;
  const int64_t pitch = (std::max<int64_t>(inner, 1) + 15) / 16 * 16 + 16 * random.below(2);
  const int64_t elements = inner == 0 || outer == 0 ? 0 : (outer - 1) * pitch + inner;
  return turned ? Strides{1, pitch, elements} : Strides{pitch, 1, elements};
}

Strides choose_vector(int64_t size, bool output, Random& random) {
  const double kind = random.uniform();
  const int64_t stride = kind < 0.6 ? 1 : kind < 0.9 || output ? 2 + random.below(2) : 0;
  return {stride, stride, size == 0 ? 0 : (size - 1) * stride + 1};
}

}  // namespace

DrawnCall::DrawnCall(const Instance& instance, std::vector<int64_t> symbols, int64_t k,
                     uint64_t seed, Layout layout)
    : instance_(instance),
      symbols_(std::move(symbols)),
      unit_(column_unit(*instance.program, symbols_)),
      seed_(seed),
      layout_(seed, "layout"),
      form_(layout) {
  const ir::Program& program = *instance.program;
  if (form_ == Layout::aligned) choose_aligned();
  const std::vector<Source> sources = sources_of(program);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ir::Input& input = program.inputs[i];
    layout_ = Random(seed, "layout " + input.name);
    if (input.kind == ir::Input::Kind::accumulator) {
      add_products(input.name, k);
    } else if (input.kind == ir::Input::Kind::tensor) {
      add_tensor(input.name, input.type, input.dims, sources[i], false);
    } else {
      Random random(seed, input.name);
      const bool real = is_float(input.type.dtype);
      const double value =
          real ? draw_real(sources[i], random)
               : static_cast<double>(draw_integer(sources[i], symbols_[ir::kSymbolN], random));
      arguments_.scalar(input.name, value);
    }
  }
  for (const ir::Output& output : program.outputs) {
    layout_ = Random(seed, "layout of output " + output.name);
    add_tensor(output.name, output.type, output.dims, Source::normal, true);
  }
  for (Block& block : blocks_) block.original = block.memory;
}

void DrawnCall::tell_sizes() { arguments_.sizes(symbols_[ir::kSymbolM], symbols_[ir::kSymbolN]); }

void DrawnCall::restore() {
  for (Block& block : blocks_)
    std::copy(block.original.begin(), block.original.end(), block.memory.begin());
}

std::vector<std::span<std::byte>> DrawnCall::memory() {
  std::vector<std::span<std::byte>> result;
  for (Block& block : blocks_) result.emplace_back(block.memory);
  return result;
}

void DrawnCall::choose_aligned() {
  turned_a_ = layout_.chance(0.4), turned_b_ = layout_.chance(0.4);
  const auto cut = [&](std::vector<int64_t>& seams, int64_t extent, int64_t step) {
    if (extent < 2 * step || !layout_.chance(0.4)) return;
    for (int64_t i = layout_.below(2); i >= 0; --i)
      seams.push_back(step * (1 + layout_.below((extent - 1) / step)));
    std::sort(seams.begin(), seams.end());
    seams.erase(std::unique(seams.begin(), seams.end()), seams.end());
  };
  cut(seams_m_, symbols_[ir::kSymbolM], 64);
  cut(seams_n_, symbols_[ir::kSymbolN], std::lcm<int64_t>(unit_, 64));
}

TensorView DrawnCall::place(const std::string& name, Shape shape, DType type, bool output,
                            bool turned) {
  TensorView view;
  view.dtype = type;
  view.rank = shape.has_rows + shape.has_columns;
  Strides strides{0, 0, 1};
  if (view.rank == 2) {
    strides = form_ == Layout::aligned
                  ? choose_aligned_matrix(shape.rows, shape.columns, turned, layout_)
                  : choose_matrix(shape.rows, shape.columns, output, layout_);
    view.shape[0] = shape.rows, view.shape[1] = shape.columns;
    view.strides[0] = strides.row, view.strides[1] = strides.column;
  } else if (view.rank == 1) {
    const int64_t size = shape.has_rows ? shape.rows : shape.columns;
    strides = choose_vector(size, output, layout_);
    view.shape[0] = size, view.strides[0] = strides.row;
  }
  const size_t width = size_of(type);
  const size_t bytes = static_cast<size_t>(strides.elements) * width;
  Block block{name, std::vector<std::byte>(bytes + 2 * kMargin, kPattern), {}, 0};
  const auto address = reinterpret_cast<uintptr_t>(block.memory.data());
  const bool shift = form_ == Layout::any && layout_.below(2) != 0;
  block.margin = 64 + (64 - address % 64) % 64 + (shift ? width : 0);
  view.data = block.memory.data() + block.margin;
  blocks_.push_back(std::move(block));
  return view;
}

/// Where a tensor of `count` rows or columns is cut, `step` apart (0: nowhere).
std::vector<int64_t> DrawnCall::draw_cuts(int64_t count, int64_t step, bool along_n) {
  std::vector<int64_t> seams{0};
  if (form_ == Layout::aligned) {
    const std::vector<int64_t>& shared = along_n ? seams_n_ : seams_m_;
    const bool whole = count == symbols_[along_n ? ir::kSymbolN : ir::kSymbolM];
    if (whole && layout_.chance(0.6)) seams.insert(seams.end(), shared.begin(), shared.end());
  } else if (step > 0 && count >= 2 * step && layout_.chance(0.3)) {
    const int64_t cuts = 1 + layout_.below(2);
    for (int64_t i = 0; i < cuts; ++i)
      seams.push_back(step * (1 + layout_.below(count / step - 1)));
    std::sort(seams.begin(), seams.end());
    seams.erase(std::unique(seams.begin(), seams.end()), seams.end());
  }
  if (seams.size() == 1 || seams.back() != count) seams.push_back(count);
  return seams;
}

std::vector<TensorView> DrawnCall::place_segments(const std::string& name, const Shape& shape,
                                                  DType type, bool output, Axis axis,
                                                  const std::vector<int64_t>& seams, bool turned) {
  std::vector<TensorView> views;
  for (size_t i = 0; i + 1 < seams.size(); ++i) {
    Shape part = shape;
    (axis == Axis::rows ? part.rows : part.columns) = seams[i + 1] - seams[i];
    views.push_back(place(name, part, type, output, turned));
  }
  return views;
}

void DrawnCall::fill(const TensorView& view, Source source, double scale, Random& random) {
  const int64_t rows = view.rank >= 1 ? view.shape[0] : 1,
                columns = view.rank == 2 ? view.shape[1] : 1;
  const size_t width = size_of(view.dtype);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      auto* at = static_cast<std::byte*>(view.data) +
                 (r * view.strides[0] + c * view.strides[1]) * static_cast<int64_t>(width);
      if (is_float(view.dtype))
        store_element(at, view.dtype, scale * draw_real(source, random));
      else
        store_integer(at, view.dtype, draw_integer(source, symbols_[ir::kSymbolN], random));
    }
}

/// Columns of the tensor itself between two allowed seams; 0: none is allowed.
int64_t DrawnCall::segment_step(const ir::Dims& dims, int64_t columns) const {
  using Kind = ir::Columns::Kind;
  const int64_t n = symbols_[ir::kSymbolN];
  if (dims.columns.kind != Kind::all && dims.columns.kind != Kind::group) return 0;
  if (n == 0 || unit_ * columns % n != 0) return 0;
  return unit_ * columns / n;
}

void DrawnCall::add_tensor(const std::string& name, const ir::ElementType& type,
                           const ir::Dims& dims, Source source, bool output) {
  if (output && update_in_place(name, type, dims)) return;
  const bool has_columns = dims.columns.kind != ir::Columns::Kind::none;
  const auto [rows, columns] = reference::extent(dims, symbols_);
  const Shape shape{rows, columns, dims.rows, has_columns};
  const bool by_rows = dims.rows && (!has_columns || layout_.chance(0.3));
  const Axis axis = by_rows ? Axis::rows : Axis::columns;
  const int64_t step = by_rows ? 1 : segment_step(dims, columns);
  const std::vector<int64_t> cuts = draw_cuts(by_rows ? rows : columns, step, !by_rows);
  const auto views = place_segments(name, shape, storage(type, instance_), output, axis, cuts);
  Random random(seed_, name);
  if (!output)
    for (const TensorView& view : views) fill(view, source, 1, random);
  if (views.size() == 1)
    arguments_.tensor(name, views[0]);
  else
    arguments_.tensor(name, axis, views);
}

/// Now and then an output tile is bound to the very view of an input tile, each input at most once.
bool DrawnCall::update_in_place(const std::string& name, const ir::ElementType& type,
                                const ir::Dims& dims) {
  const bool tile = dims.rows && dims.columns.kind == ir::Columns::Kind::all;
  if (!tile || !layout_.chance(0.25)) return false;
  for (const ir::Input& input : instance_.program->inputs) {
    if (input.kind != ir::Input::Kind::tensor || !(input.dims == dims) ||
        storage(input.type, instance_) != storage(type, instance_) || updated_.contains(input.name))
      continue;
    const Arguments::State::Tensor& tensor = arguments_.state().tensors.find(input.name)->second;
    const auto repeats = [](const TensorView& v) {
      return (v.strides[0] == 0 && v.shape[0] > 1) || (v.strides[1] == 0 && v.shape[1] > 1);
    };
    if (std::any_of(tensor.segments.begin(), tensor.segments.end(), repeats)) continue;
    updated_.insert(input.name);
    arguments_.tensor(name, tensor.axis, tensor.segments);
    return true;
  }
  return false;
}

/// One product, or two that share K; the weight whole or in segments along N.
void DrawnCall::add_products(const std::string& name, int64_t k) {
  const int64_t m = symbols_[ir::kSymbolM], n = symbols_[ir::kSymbolN];
  const int64_t first = k >= 2 && layout_.chance(0.25) ? 1 + layout_.below(k - 1) : k;
  const double scale = k > 0 ? 1 / std::sqrt(static_cast<double>(k)) : 1;
  std::vector<std::pair<int64_t, TensorView>> terms = shared_;
  if (terms.empty())
    for (const int64_t depth : first < k ? std::vector{first, k - first} : std::vector{k}) {
      const std::string term = name + (terms.empty() ? " A" : " A2");
      Random random(seed_, term);
      const TensorView a = place(term, {m, depth, true, true}, instance_.type, false, turned_a_);
      fill(a, Source::normal, 1, random);
      terms.emplace_back(depth, a);
    }
  if (form_ == Layout::aligned) shared_ = terms;
  for (size_t i = 0; i < terms.size(); ++i) {
    Random random(seed_, name + (i == 0 ? " B" : " B2"));
    const auto weights =
        place_segments(name + " B", {n, terms[i].first, true, true}, instance_.type, false,
                       Axis::rows, draw_cuts(n, unit_, true), turned_b_);
    for (const TensorView& weight : weights) fill(weight, Source::normal, scale, random);
    arguments_.product(name, terms[i].second, weights);
  }
}

std::string DrawnCall::find_damage(const BoundCall& call) const {
  // What memory holds, with the outputs' elements put back to what they were: nothing may differ.
  std::vector<std::vector<std::byte>> memory;
  for (const Block& block : blocks_) memory.push_back(block.memory);
  const auto put_back = [&](size_t block, int64_t at, int64_t bytes) {
    std::copy_n(blocks_[block].original.begin() + at, bytes, memory[block].begin() + at);
  };
  for (const Binding& output : call.outputs)
    for (const Segment& segment : output.segments) {
      const View& view = segment.view;
      const auto holder = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) {
        return view.data >= b.memory.data() && view.data < b.memory.data() + b.memory.size();
      });
      if (holder == blocks_.end()) continue;  // no elements
      const bool by_rows = output.axis == Axis::rows;
      const int64_t rows = by_rows ? segment.end - segment.begin : output.rows;
      const int64_t columns = by_rows ? output.columns : segment.end - segment.begin;
      const auto width = static_cast<int64_t>(size_of(view.dtype));
      const int64_t base = view.data - holder->memory.data();
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t row = base + r * view.row_stride * width;
        if (view.column_stride == 1) {
          put_back(static_cast<size_t>(holder - blocks_.begin()), row, columns * width);
          continue;
        }
        for (int64_t c = 0; c < columns; ++c)
          put_back(static_cast<size_t>(holder - blocks_.begin()),
                   row + c * view.column_stride * width, width);
      }
    }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const auto [got, kept] =
        std::mismatch(memory[i].begin(), memory[i].end(), block.original.begin());
    if (got == memory[i].end()) continue;
    const int64_t at = (got - memory[i].begin()) - static_cast<int64_t>(block.margin);
    return "a byte outside of the outputs was written: '" + block.name + "', " +
           std::to_string(at) + " bytes from its start";
  }
  return {};
}

}  // namespace coda::check

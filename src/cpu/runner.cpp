// SPDX-License-Identifier: Apache-2.0
#include "cpu/runner.h"

#include <algorithm>

namespace coda::cpu {
namespace {

using Kind = Instruction::Kind;

template <class T>
int at(T value) {
  return static_cast<int>(value);
}

/// visit(piece, row, rows, column, columns, view) for each segment's part of a range; the last four
/// are relative to the range, `memory` is the part's first element.
template <class Visit>
void for_pieces(const Binding& binding, int64_t row, int64_t rows, int64_t column, int64_t columns,
                const Visit& visit) {
  const bool by_rows = binding.axis == Axis::rows;
  const int64_t begin = by_rows ? row : column, end = begin + (by_rows ? rows : columns);
  const bool single = binding.segments.size() == 1;
  for (const Segment& segment : binding.segments) {
    const int64_t from = single ? begin : std::max(begin, segment.begin);
    const int64_t to = single ? end : std::min(end, segment.end);
    if (from >= to) continue;
    const View& view = segment.view;
    const int64_t r = by_rows ? from - segment.begin : row,
                  c = by_rows ? column : from - segment.begin;
    std::byte* memory = view.data + (r * view.row_stride + c * view.column_stride) *
                                        static_cast<int64_t>(size_of(view.dtype));
    if (by_rows)
      visit(memory, from - begin, to - from, int64_t{0}, columns, view);
    else
      visit(memory, int64_t{0}, rows, from - begin, to - from, view);
  }
}

/// Whether a tile adds to a reduction: values without rows (columns) count once.
bool takes_part(const Reduction& r, const Tile& tile) {
  return (r.from.rows || tile.tile_row == 0) && (r.from.tile_columns() || tile.tile_column == 0);
}

/// The first state of a tile's part, at row `row` of the tile.
int64_t first_state(const Reduction& r, const Tile& tile, int64_t row) {
  const bool rows = r.from.rows && !r.kept.rows,
             columns = r.from.tile_columns() && !r.kept.tile_columns();
  const int64_t part =
      (rows ? tile.tile_row * r.parts_columns : 0) + (columns ? tile.tile_column : 0);
  const int64_t width = r.kept.kind == Extent::Kind::repeat ? r.kept.size : 1;
  return part * r.elements + (r.kept.rows ? (tile.row + row) * width : 0) +
         r.kept.first(tile.column);
}

/// Makes a tile's states those of nothing.
void clear(const Reduction& r, const CallMemory& memory, const Kernels& kernels, const Tile& tile) {
  const Reducer& reducer = kernels.reduce[at(r.family)][r.integer];
  const int64_t count = (r.kept.rows ? tile.rows : 1) * r.kept.columns(tile.columns);
  reducer.clear(memory.workspace + r.offset +
                    static_cast<size_t>(first_state(r, tile, 0)) * reducer.state_bytes,
                count);
}

}  // namespace

void load_range(const Binding& binding, const Kernels& kernels, int64_t row, int64_t rows,
                int64_t column, int64_t columns, std::byte* to) {
  for_pieces(binding, row, rows, column, columns,
             [&](std::byte* memory, int64_t r, int64_t count_r, int64_t c, int64_t count_c,
                 const View& view) {
               const size_t width = is_float(view.dtype) ? sizeof(float) : sizeof(int64_t);
               kernels.load[at(view.dtype)](
                   {count_r, count_c, memory, view.row_stride, view.column_stride,
                    to + static_cast<size_t>(r * columns + c) * width, columns, 1});
             });
}

Runner::Runner(const Tape& tape, const Kernels& kernels, const CallMemory& memory,
               std::byte* tile_arena, std::byte* block_arena)
    : tape_(tape),
      kernels_(kernels),
      memory_(memory),
      arenas_{tile_arena, block_arena},
      memory_of_(tape.code.size()),
      done_(tape.code.size()),
      columns_(tape.code.size()) {
  if (!tape.late_stores) find_memory();
}

/// Tiles whose storage type is that of their lanes need no slot: what is loaded is read where it
/// lies, and what is stored is computed into the output, and read there when it is used again.
void Runner::find_memory() {
  for (int id : tape_.block_section) {
    const Instruction& code = tape_.code[id];
    const bool load = code.kind == Kind::load && !code.completed;
    if ((!load && code.kind != Kind::store) || code.extent.kind != Extent::Kind::all) continue;
    const Binding& binding = (load ? memory_.call.inputs : memory_.call.outputs)[code.source];
    const View& view = binding.segments[0].view;
    const DType lane = code.lane == Lane::f32 ? DType::f32 : DType::i64;
    if (binding.segments.size() != 1 || view.column_stride != 1 || view.dtype != lane) continue;
    const int value = load ? id : code.arguments[0];
    const Instruction& made = tape_.code[value];
    if (!load && (made.kind != Kind::pointwise || !(made.extent == code.extent) ||
                  memory_of_[value].data != nullptr))
      continue;
    memory_of_[value] = {view.data, view.row_stride};
    done_[id] = true;
  }
}

void Runner::set_columns(int64_t n) {
  if (n == columns_of_) return;
  columns_of_ = n;
  for (size_t i = 0; i < columns_.size(); ++i) columns_[i] = tape_.code[i].extent.columns(n);
}

Runner::Place Runner::place(int instruction, int64_t row) const {
  const Instruction& code = tape_.code[instruction];
  const int64_t columns = columns_[instruction];
  if (code.arena == Arena::accumulator) {
    const float* data = accumulators_.data[code.source] + row * accumulators_.stride;
    return {reinterpret_cast<std::byte*>(const_cast<float*>(data)), accumulators_.stride};
  }
  if (const Memory& memory = memory_of_[instruction]; memory.data != nullptr) {
    const int64_t skipped = (tile_.row + row) * memory.row_stride + code.extent.first(tile_.column);
    return {memory.data + skipped * static_cast<int64_t>(size_of(code.lane)), memory.row_stride};
  }
  std::byte* data = arenas_[at(code.arena)] + code.offset;
  if (!code.extent.rows) return {data, 0};
  // Values in the tile arena have all rows of the tile; those of the block arena begin at `row`.
  const int64_t skipped = code.arena == Arena::tile ? row * columns : 0;
  return {data + static_cast<size_t>(skipped) * size_of(code.lane), columns};
}

void Runner::run(const Tile& tile, const TileAccumulators& accumulators) {
  tile_ = tile;
  accumulators_ = accumulators;
  set_columns(tile.columns);
  for (const Reduction& r : memory_.reductions)
    if (takes_part(r, tile)) clear(r, memory_, kernels_, tile);
  for (int id : tape_.tile_section) execute(id, 0, tape_.code[id].extent.rows ? tile.rows : 1);
  for (int64_t row = 0; row < tile.rows; row += tape_.block_rows) {
    const int64_t rows = std::min(tape_.block_rows, tile.rows - row);
    for (int id : tape_.block_section) execute(id, row, rows);
  }
}

void Runner::execute(int instruction, int64_t row, int64_t rows) {
  if (done_[instruction]) return;
  const Instruction& code = tape_.code[instruction];
  const int64_t columns = columns_[instruction];
  std::byte* out = arenas_[at(code.arena) & 1] + code.offset;
  switch (code.kind) {
    case Kind::constant:
      if (code.lane == Lane::f32)
        *reinterpret_cast<float*>(out) = code.real;
      else
        *reinterpret_cast<int64_t*>(out) = code.integer;
      return;
    case Kind::index: {
      BlockArgs args{rows, columns, out};
      args.phase = code.along_rows ? tile_.row + row : code.extent.first(tile_.column);
      args.row_stride[0] = code.along_rows, args.row_stride[1] = !code.along_rows;
      return kernels_.index(args);
    }
    case Kind::load:
      return load(code, columns, out, row, rows);
    case Kind::accumulator:
      return;
    case Kind::pointwise:
      return run_pointwise(instruction, row, rows);
    case Kind::columnwise:
      return run_columnwise(code, columns, out, row, rows);
    case Kind::group_reduce:
      return group_reduce(code, columns, out, row, rows);
    case Kind::store:
      return store(code, columns, row, rows);
    case Kind::reduce:
      return reduce(code, columns, row, rows);
  }
}

void Runner::run_pointwise(int instruction, int64_t row, int64_t rows) {
  const Instruction& code = tape_.code[instruction];
  const int64_t columns = columns_[instruction];
  const Place out = place(instruction, row);
  BlockArgs args{rows, columns, out.data};
  args.out_stride = out.row_stride;
  // Rows can be joined to one where every operand is packed or the same everywhere.
  bool joined = code.extent.kind == Extent::Kind::none;
  bool packed = out.row_stride == columns;
  for (int k = 0; k < code.argument_count; ++k) {
    const Place operand = place(code.arguments[k], row);
    args.in[k] = operand.data, args.row_stride[k] = operand.row_stride;
    const bool vector = tape_.code[code.arguments[k]].extent.kind != Extent::Kind::none;
    packed = packed && operand.row_stride == (vector ? columns : 0);
  }
  joined = joined || packed;
  if (joined) args.rows = 1, args.columns = rows * columns;
  code.kernel(args);
}

void Runner::run_columnwise(const Instruction& code, int64_t columns, std::byte* out, int64_t row,
                            int64_t rows) {
  BlockArgs args{rows, columns, out};
  for (int k = 0; k < code.argument_count; ++k) {
    const Place operand = place(code.arguments[k], row);
    args.in[k] = operand.data, args.row_stride[k] = operand.row_stride;
  }
  args.half = code.half, args.group = code.group;
  if (code.period) args.phase = code.extent.first(tile_.column) % code.group;
  code.kernel(args);
}

void Runner::load(const Instruction& code, int64_t columns, std::byte* out, int64_t row,
                  int64_t rows) const {
  const int64_t first_row = code.extent.rows ? tile_.row + row : 0;
  const int64_t first = code.extent.first(tile_.column);
  if (!code.completed)
    return load_range(memory_.call.inputs[code.source], kernels_, first_row, rows, first, columns,
                      out);
  const Completed& completed = memory_.completed[code.source];
  const int64_t pitch = code.extent.columns(memory_.call.n);
  const size_t width = size_of(code.lane);
  const DType type = code.lane == Lane::f32 ? DType::f32 : DType::i64;
  kernels_.load[at(type)]({rows, columns,
                           memory_.workspace + completed.offset +
                               static_cast<size_t>(first_row * pitch + first) * width,
                           pitch, 1, out, columns, 1});
}

void Runner::store(const Instruction& code, int64_t columns, int64_t row, int64_t rows) const {
  const Place value = place(code.arguments[0], row);
  const bool vector = tape_.code[code.arguments[0]].extent.kind != Extent::Kind::none;
  const Binding& binding = memory_.call.outputs[code.source];
  const size_t width = size_of(code.lane);
  for_pieces(binding, code.extent.rows ? tile_.row + row : 0, rows, code.extent.first(tile_.column),
             columns,
             [&](std::byte* memory, int64_t r, int64_t count_r, int64_t c, int64_t count_c,
                 const View& view) {
               const int64_t skipped = r * value.row_stride + (vector ? c : 0);
               kernels_.store[code.lane == Lane::i64][at(view.dtype)](
                   {count_r, count_c, memory, view.row_stride, view.column_stride,
                    value.data + static_cast<size_t>(skipped) * width, value.row_stride, vector});
             });
}

void Runner::group_reduce(const Instruction& code, int64_t columns, std::byte* out, int64_t row,
                          int64_t rows) {
  const int argument = code.arguments[0];
  const Place value = place(argument, row);
  const Reducer& reducer = kernels_.reduce[at(code.family)][tape_.code[argument].lane == Lane::i64];
  std::byte* states = arenas_[at(Arena::block)] + code.scratch;
  reducer.clear(states, rows * columns);
  const Extent& from = tape_.code[argument].extent;
  reducer.accumulate({rows, columns * code.group, value.data, value.row_stride, Pattern::groups,
                      code.group, 0, states, columns, from.first(tile_.column), 0, true});
  reducer.finish(states, rows * columns, code.finish, static_cast<double>(code.group), out);
}

void Runner::reduce(const Instruction& code, int64_t columns, int64_t row, int64_t rows) {
  const Reduction& r = memory_.reductions[code.source];
  if (!takes_part(r, tile_) || rows == 0 || columns == 0) return;
  const Place value = place(code.arguments[0], row);
  const Reducer& reducer = kernels_.reduce[at(r.family)][r.integer];
  const bool over_rows = r.from.rows && !r.kept.rows,
             over_columns =
                 r.columns != Reduction::Columns::each && r.from.kind != Extent::Kind::none;
  ReduceArgs args{rows, columns, value.data, value.row_stride};
  const bool run = r.columns == Reduction::Columns::all || r.columns == Reduction::Columns::group;
  args.pattern = run ? Pattern::groups : Pattern::period;
  const bool sized =
      r.columns == Reduction::Columns::group || r.columns == Reduction::Columns::period;
  args.size = sized ? r.kept.size : columns;
  if (r.columns == Reduction::Columns::period)
    args.phase = r.from.first(tile_.column) % r.kept.size;
  args.state = memory_.workspace + r.offset +
               static_cast<size_t>(first_state(r, tile_, row)) * reducer.state_bytes;
  args.state_stride = r.kept.rows ? r.kept.columns(memory_.call.n) : 0;
  const int64_t row_step = over_rows ? (over_columns ? r.width : 1) : 0;
  args.first_index = (over_rows ? (tile_.row + row) * row_step : 0) +
                     (over_columns ? r.from.first(tile_.column) : 0);
  args.index_stride = row_step, args.column_index = over_columns;
  reducer.accumulate(args);
}

}  // namespace coda::cpu

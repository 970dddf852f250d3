// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/passes.h"

#include <algorithm>
#include <utility>

namespace coda::cuda {
namespace {

constexpr int kCopyThreads = 256;

// Neighbouring threads take neighbouring columns: the host makes `columns` the dimension along
// which the target is contiguous.
const char* const kCopyText = R"(
using i64 = long long;
struct Copy {
  const void* from;
  void* to;
  i64 rows, columns, from_row, from_column, to_row, to_column;
};
template <class T>
__device__ void copy(const Copy& c) {
  const i64 count = c.rows * c.columns, step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const i64 row = i / c.columns, column = i % c.columns;
    static_cast<T*>(c.to)[row * c.to_row + column * c.to_column] =
        static_cast<const T*>(c.from)[row * c.from_row + column * c.from_column];
  }
}
extern "C" __global__ void __launch_bounds__(256) coda_copy_1(const __grid_constant__ Copy c) {
  copy<unsigned char>(c);
}
extern "C" __global__ void __launch_bounds__(256) coda_copy_2(const __grid_constant__ Copy c) {
  copy<unsigned short>(c);
}
extern "C" __global__ void __launch_bounds__(256) coda_copy_4(const __grid_constant__ Copy c) {
  copy<unsigned int>(c);
}
extern "C" __global__ void __launch_bounds__(256) coda_copy_8(const __grid_constant__ Copy c) {
  copy<unsigned long long>(c);
}
)";

/// Blocks for so many threads: no more than keep the GPU busy, since kernels stride.
int64_t blocks_for(const Gpu& gpu, int64_t threads, int block) {
  const int64_t most = static_cast<int64_t>(gpu.info().multiprocessors) * 16;
  return std::clamp<int64_t>((threads + block - 1) / block, 1, most);
}

/// A segment as a matrix of its own.
struct Part {
  View view;
  int64_t rows, columns;
  int64_t row, column;  // of its first element in the binding
};

std::vector<Part> parts_of(const Binding& binding) {
  std::vector<Part> parts;
  for (const Segment& s : binding.segments) {
    const bool by_rows = binding.axis == Axis::rows;
    parts.push_back({s.view, by_rows ? s.end - s.begin : binding.rows,
                     by_rows ? binding.columns : s.end - s.begin, by_rows ? s.begin : 0,
                     by_rows ? 0 : s.begin});
  }
  return parts;
}

View shifted(View view, int64_t row, int64_t column) {
  const auto bytes = static_cast<int64_t>(size_of(view.dtype));
  view.data += (row * view.row_stride + column * view.column_stride) * bytes;
  return view;
}

}  // namespace

const LoadedSource& Copier::loaded() const {
  const std::lock_guard lock(mutex_);
  if (!loaded_)
    loaded_ = std::make_unique<LoadedSource>(
        Source{"coda_copy", kCopyText}, architecture_, gpu_,
        std::vector<LoadedSource::Wanted>{
            {"coda_copy_1", 0}, {"coda_copy_2", 0}, {"coda_copy_4", 0}, {"coda_copy_8", 0}});
  return *loaded_;
}

void Copier::copy(Sequence& steps, const Gpu& gpu, const View& from, const View& to, int64_t rows,
                  int64_t columns) const {
  if (rows == 0 || columns == 0) return;
  struct {
    const void* from;
    void* to;
    int64_t rows, columns, from_row, from_column, to_row, to_column;
  } c{from.data,     to.data,         rows, columns, from.row_stride, from.column_stride,
      to.row_stride, to.column_stride};
  if (c.to_row == 1 && c.to_column != 1) {
    std::swap(c.rows, c.columns);
    std::swap(c.from_row, c.from_column);
    std::swap(c.to_row, c.to_column);
  }
  ArgumentBytes bytes(sizeof c);
  bytes.put(0, c);
  const size_t width = size_of(from.dtype);
  const size_t index = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
  steps.kernel(loaded().function(index), blocks_for(gpu, rows * columns, kCopyThreads),
               kCopyThreads, 0, bytes);
}

View contiguous_like(const Planning& planning, const Binding& binding) {
  const DType type = binding.segments.at(0).view.dtype;
  const int64_t bytes = binding.rows * binding.columns * static_cast<int64_t>(size_of(type));
  return {static_cast<std::byte*>(planning.work.take(bytes)), binding.columns, 1, type};
}

View whole_input(const Planning& planning, const Copier& copier, const Binding& binding,
                 bool contiguous) {
  const View& first = binding.segments.at(0).view;
  const bool row_ok = binding.columns <= 1 || first.column_stride == 1;
  const bool vector_ok = binding.columns > 1 || binding.rows <= 1 || first.row_stride == 1;
  if (binding.segments.size() == 1 && (!contiguous || (row_ok && vector_ok))) return first;
  View whole = contiguous_like(planning, binding);
  if (planning.steps)
    for (const Part& part : parts_of(binding))
      copier.copy(*planning.steps, *planning.gpu, part.view, shifted(whole, part.row, part.column),
                  part.rows, part.columns);
  // A vector or a number is read at every row, or at every column.
  if (binding.rows == 1) whole.row_stride = 0;
  if (binding.columns == 1) whole.column_stride = 0;
  return whole;
}

void copy_back(const Planning& planning, const Copier& copier, const View& from,
               const Binding& to) {
  if (!planning.steps) return;
  for (const Part& part : parts_of(to))
    copier.copy(*planning.steps, *planning.gpu, shifted(from, part.row, part.column), part.view,
                part.rows, part.columns);
}

int64_t columns_of(const ir::Columns& columns, const BoundCall& call) {
  const auto value = [&](const ir::Size& size) {
    return ir::evaluate(size, call.symbols, "columns");
  };
  switch (columns.kind) {
    case ir::Columns::Kind::none:
      return 1;
    case ir::Columns::Kind::all:
      return value(columns.width);
    case ir::Columns::Kind::group:
      return value(columns.width) / value(columns.size);
    case ir::Columns::Kind::repeat:
      return value(columns.size);
  }
  return 1;
}

std::vector<void*> take_work(const Planning& planning, const Pointwise& passes, int64_t tiles_m,
                             int64_t tiles_n) {
  std::vector<void*> result;
  for (const PointwiseWork& work : passes.work) {
    using Rows = PointwiseWork::Rows;
    const BoundCall& call = planning.call;
    int64_t count = columns_of(work.dims.columns, call);
    switch (work.rows) {
      case Rows::results:
        count *= rows_of(work.dims, call);
        break;
      case Rows::matrix:
        count *= call.m;
        break;
      case Rows::chunks:
        count *= (call.m + kRowChunk - 1) / kRowChunk;
        break;
      case Rows::tiles_n:
        count *= tiles_n * call.m;
        break;
      case Rows::tiles_m:
        count *= tiles_m;
        break;
    }
    result.push_back(planning.work.take(count * work.element));
  }
  return result;
}

void queue_passes(const Planning& planning, const Pointwise& passes, const LoadedSource& loaded,
                  size_t first_function, const std::vector<View>& views,
                  const std::vector<void*>& work, int64_t tiles_m, int64_t tiles_n) {
  if (!planning.steps || passes.passes.empty()) return;
  const ir::Program& program = *planning.instance.program;
  const BoundCall& call = planning.call;
  // NAME_Arguments of the generated text: sizes, numbers, views, arrays.
  constexpr size_t kNumbers = 32, kView = 24;
  const size_t views_at = kNumbers + 8 * std::max<size_t>(program.inputs.size(), 1);
  const size_t work_at = views_at + kView * views.size();
  ArgumentBytes bytes(work_at + 8 * std::max<size_t>(work.size(), 1));
  bytes.put(0, call.m), bytes.put(8, call.n), bytes.put(16, tiles_m), bytes.put(24, tiles_n);
  std::vector<NumberSlot> numbers;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].kind == ir::Input::Kind::scalar)
      numbers.push_back({kNumbers + 8 * i, static_cast<int>(i),
                         !is_float(storage(program.inputs[i].type, planning.instance))});
  for (size_t i = 0; i < views.size(); ++i) {
    bytes.put(views_at + kView * i, views[i].data);
    bytes.put(views_at + kView * i + 8, views[i].row_stride);
    bytes.put(views_at + kView * i + 16, views[i].column_stride);
  }
  for (size_t i = 0; i < work.size(); ++i) bytes.put(work_at + 8 * i, work[i]);
  for (size_t i = 0; i < passes.passes.size(); ++i) {
    const PointwisePass& pass = passes.passes[i];
    const int64_t rows = !pass.items.rows  ? 1
                         : pass.row_chunks ? (call.m + kRowChunk - 1) / kRowChunk
                                           : call.m;
    const int64_t items = rows * columns_of(pass.items.columns, call);
    if (items == 0) continue;
    planning.steps->kernel(
        loaded.function(first_function + i),
        blocks_for(*planning.gpu, items * (pass.warp_per_item ? 32 : 1), kPassThreads),
        kPassThreads, 0, bytes, numbers);
  }
}

}  // namespace coda::cuda

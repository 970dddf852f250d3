// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/call.h"

#include <coda/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/convert.h"
#include "reference/reference.h"

namespace coda::cuda {
namespace {

constexpr size_t kPool = 1000003;  // elements that tensors repeat
constexpr size_t kAlignment = 1024;
constexpr Device kDevice{Device::Kind::cuda, 0};

TensorView operand(Arena& arena, int64_t rows, int64_t k, DType type, bool turned, double scale) {
  std::byte* const data = arena.tensor(rows * k, type, check::Source::normal, 1, scale);
  const TensorView view = matrix_view(data, turned ? k : rows, turned ? rows : k, type, 0, kDevice);
  return turned ? transposed(view) : view;
}

}  // namespace

int64_t CallSize::depth() const {
  return std::accumulate(depths.begin(), depths.end(), int64_t{0});
}

double CallSize::weight_scale() const {
  return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(depth(), 1)));
}

Arena::Arena(std::shared_ptr<const Gpu> gpu, size_t bytes) : gpu_(std::move(gpu)), bytes_(bytes) {
  if (!gpu_) return;
  stream_ = std::make_unique<Stream>(gpu_->shared_context());
  memory_ = Memory(gpu_->shared_context(), bytes);
}

void Arena::synchronise() const {
  if (stream_) stream_->synchronise();
}

std::byte* Arena::take(int64_t bytes) {
  if (!gpu_) return nullptr;
  std::byte* const result = static_cast<std::byte*>(memory_.data()) + used_;
  used_ += (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  if (used_ > bytes_)
    throw Error(ErrorKind::unsupported, "bench",
                "tensors of " + std::to_string(bytes_ >> 30) + " GiB at most",
                std::to_string(used_) + " bytes", "take smaller sizes");
  return result;
}

std::byte* Arena::tensor(int64_t elements, DType type, check::Source source, int64_t n,
                         double scale) {
  const size_t width = size_of(type), bytes = static_cast<size_t>(elements) * width;
  // Each tensor begins elsewhere in its pool: A B^T of equal operands hides a turned tile.
  const size_t begin = used_ / kAlignment * 7919 % kPool * width;
  std::byte* const to = take(static_cast<int64_t>(bytes));
  if (!gpu_ || bytes == 0) return to;
  const std::vector<std::byte>& pool = pool_of(type, source, n, scale);
  size_t done = std::min(bytes, pool.size() - begin);
  copy_to_device(gpu_->context(), to, pool.data() + begin, done, stream());
  if (done < bytes && begin > 0) {
    const size_t rest = std::min(bytes - done, begin);
    copy_to_device(gpu_->context(), to + done, pool.data(), rest, stream());
    done += rest;
  }
  while (done < bytes) {  // a multiple of the pool each time, so that the pattern goes on
    const size_t step = std::min(done, bytes - done);
    copy_on_device(gpu_->context(), to + done, to, step, stream());
    done += step;
  }
  synchronise();
  return to;
}

const std::vector<std::byte>& Arena::pool_of(DType type, check::Source source, int64_t n,
                                             double scale) {
  std::vector<std::byte>& pool = pools_[{type, source, n, scale}];
  if (!pool.empty()) return pool;
  pool.resize(kPool * size_of(type));
  check::Random random(17);
  for (size_t i = 0; i < kPool; ++i) {
    std::byte* const at = pool.data() + i * size_of(type);
    if (is_float(type))
      store_element(at, type, scale * check::draw_real(source, random));
    else
      store_integer(at, type, check::draw_integer(source, n, random));
  }
  return pool;
}

BoundCall make_call(Arena& arena, const Instance& instance, const CallSize& size) {
  const ir::Program& program = *instance.program;
  const std::vector<check::Source> sources = check::sources_of(program);
  Arguments arguments;
  std::vector<int64_t> symbols = instance.symbols;
  symbols[ir::kSymbolM] = size.m, symbols[ir::kSymbolN] = size.n;
  const auto tensor = [&](const ir::Dims& dims, DType type, check::Source source) {
    const auto [rows, columns] = reference::extent(dims, symbols);
    const void* data = arena.tensor(rows * columns, type, source, size.n);
    if (dims.columns.kind == ir::Columns::Kind::none)
      return dims.rows ? vector_view(data, rows, type, kDevice) : scalar_view(data, type, kDevice);
    return dims.rows ? matrix_view(data, rows, columns, type, 0, kDevice)
                     : vector_view(data, columns, type, kDevice);
  };
  std::vector<TensorView> a;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ir::Input& input = program.inputs[i];
    if (input.kind == ir::Input::Kind::tensor) {
      arguments.tensor(input.name, tensor(input.dims, storage(input.type, instance), sources[i]));
    } else if (input.kind == ir::Input::Kind::scalar) {
      arguments.scalar(input.name, is_float(storage(input.type, instance)) ? 1e-5 : 1);
    } else {
      for (size_t s = 0; s < size.depths.size(); ++s) {
        const int64_t k = size.depths[s];
        if (a.size() == s)
          a.push_back(operand(arena, size.m, k, instance.type, size.turned_a(), 1));
        arguments.product(
            input.name, a[s],
            operand(arena, size.n, k, instance.type, size.turned_b(), size.weight_scale()));
      }
    }
  }
  for (const ir::Output& output : program.outputs)
    arguments.tensor(output.name,
                     tensor(output.dims, storage(output.type, instance), check::Source::byte));
  arguments.sizes(size.m, size.n);
  return bind(instance, arguments, kDevice,
              arena.stream() ? coda::Memory::required : coda::Memory::may_be_null);
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "support/test_call.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/convert.h"
#include "reference/reference.h"

namespace coda::test {
namespace {

constexpr size_t kMargin = 256;

std::byte* element(const TensorView& view, int64_t row, int64_t column) {
  const int64_t offset = view.rank == 2   ? row * view.strides[0] + column * view.strides[1]
                         : view.rank == 1 ? (row + column) * view.strides[0]
                                          : 0;
  return static_cast<std::byte*>(view.data) + offset * static_cast<int64_t>(size_of(view.dtype));
}

/// Calls `use(row, column)` for each element; a vector's elements are rows.
template <class Use>
void for_each(const TensorView& view, const Use& use) {
  const int64_t rows = view.rank >= 1 ? view.shape[0] : 1,
                columns = view.rank == 2 ? view.shape[1] : 1;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) use(i, j);
}

}  // namespace

double t(int64_t n) { return static_cast<double>((37 * n + 11) % 101 - 50) / 32; }

double load(const TensorView& view, int64_t row, int64_t column) {
  return load_element(element(view, row, column), view.dtype);
}

void store(const TensorView& view, int64_t row, int64_t column, double value) {
  store_element(element(view, row, column), view.dtype, value);
}

Program library(const std::string& file, const std::string& name) {
  return Program::load(std::string(CODA_SOURCE_DIR "/library/") + file, name);
}

TestCall::TestCall(Program program, Sizes sizes, DType type,
                   std::vector<std::pair<std::string, int64_t>> parameters)
    : program_(std::move(program)), type_(type), parameters_(std::move(parameters)) {
  const ir::Program& ir = program_.ir();
  std::vector<int64_t> symbols = instance().symbols;
  symbols[ir::kSymbolN] = sizes.n, symbols[ir::kSymbolM] = sizes.m;
  int64_t offset = 0;
  const auto make = [&](const ir::ElementType& element, const ir::Dims& dims, bool output) {
    const DType dtype = element.generic ? type : element.dtype;
    const reference::Extent extent = reference::extent(dims, symbols);
    const auto value = [&, offset](int64_t i, int64_t j) {
      const int64_t index =
          i * (dims.columns.kind == ir::Columns::Kind::none ? 1 : extent.columns) + j;
      return is_float(dtype) ? t(index + offset)
                             : static_cast<double>(7 * index % std::max<int64_t>(sizes.n, 1));
    };
    const Fill fill = output ? Fill{} : Fill{value};
    if (dims.rows && dims.columns.kind != ir::Columns::Kind::none)
      return matrix(extent.rows, extent.columns, dtype, fill);
    if (!dims.is_scalar()) return vector(dims.rows ? extent.rows : extent.columns, dtype, fill);
    TensorView view = vector(1, dtype, fill);
    return scalar_view(view.data, dtype);
  };
  for (const ir::Input& input : ir.inputs) {
    if (input.kind == ir::Input::Kind::scalar) scalars[input.name] = 0.5;
    if (input.kind == ir::Input::Kind::tensor)
      tensors[input.name].segments = {make(input.type, input.dims, false)};
    if (input.kind == ir::Input::Kind::accumulator) {
      const int64_t k = sizes.k;
      const auto a = [=](int64_t i, int64_t j) { return t(i * k + j + offset); };
      const auto b = [=](int64_t i, int64_t j) { return t(i * k + j + offset + 5000); };
      products[input.name] = {{matrix(sizes.m, k, type, a), {matrix(sizes.n, k, type, b)}}};
    }
    offset += 9000;
  }
  for (const ir::Output& output : ir.outputs)
    if (!tensors.contains(output.name))
      tensors[output.name].segments = {make(output.type, output.dims, true)};
}

std::byte* TestCall::allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  Buffer& buffer = buffers_.emplace_back();
  buffer.memory.assign(bytes + 2 * kMargin + kAlignment, std::byte{0xff});
  auto address = reinterpret_cast<uintptr_t>(buffer.memory.data()) + kMargin;
  buffer.data = buffer.memory.data() + kMargin + (kAlignment - address % kAlignment) % kAlignment;
  buffer.size = bytes;
  return buffer.data;
}

TensorView TestCall::matrix(int64_t rows, int64_t columns, DType type, const Fill& fill,
                            int64_t row_stride, int64_t column_stride) {
  TensorView view = matrix_view(nullptr, rows, columns, type, row_stride);
  view.strides[1] = column_stride;
  int64_t elements = 0;
  if (rows > 0 && columns > 0)
    elements = (rows - 1) * view.strides[0] + (columns - 1) * view.strides[1] + 1;
  view.data = allocate(static_cast<size_t>(elements) * size_of(type));
  if (fill) for_each(view, [&](int64_t i, int64_t j) { store(view, i, j, fill(i, j)); });
  return view;
}

TensorView TestCall::vector(int64_t size, DType type, const Fill& fill, int64_t stride) {
  TensorView view = vector_view(nullptr, size, type);
  view.strides[0] = stride;
  view.data = allocate(static_cast<size_t>(size > 0 ? (size - 1) * stride + 1 : 0) * size_of(type));
  if (fill) for_each(view, [&](int64_t i, int64_t) { store(view, i, 0, fill(i, 0)); });
  return view;
}

void TestCall::fill(const std::string& name, const Fill& fill) {
  const TensorView& target = view(name);
  for_each(target, [&](int64_t i, int64_t j) { store(target, i, j, fill(i, j)); });
}

Arguments TestCall::arguments() const {
  Arguments result;
  for (const auto& [name, tensor] : tensors) result.tensor(name, tensor.axis, tensor.segments);
  for (const auto& [name, value] : scalars) result.scalar(name, value);
  for (const auto& [name, terms] : products)
    for (const Term& term : terms) result.product(name, term.a, term.b);
  if (sizes) result.sizes(sizes->first, sizes->second);
  return result;
}

Instance TestCall::instance() const {
  std::vector<SizeValue> values;
  for (const auto& [name, value] : parameters_) values.push_back({name, value});
  return instantiate({std::shared_ptr<const void>(), &program_.ir()},
                     {.type = type_, .sizes = values});
}

Kernel TestCall::compile() const {
  std::vector<SizeValue> values;
  for (const auto& [name, value] : parameters_) values.push_back({name, value});
  return coda::compile(program_, {},
                       {.type = type_, .sizes = values, .fused = fused, .threads = threads});
}

void TestCall::launch() {
  const Kernel kernel = compile();
  const Arguments given = arguments();
  const size_t bytes = kernel.workspace_bytes(given);
  kernel.launch(nullptr, given, allocate(bytes), bytes);
  const Buffer& workspace = buffers_.back();
  const std::byte* end = workspace.data + bytes;
  for (const std::byte& byte : workspace.memory)
    if ((&byte < workspace.data || &byte >= end) && byte != std::byte{0xff}) {
      ADD_FAILURE() << "byte " << &byte - workspace.data << " of a workspace of " << bytes
                    << " was written";
      break;
    }
}

std::vector<bool> TestCall::written_mask(const Buffer& buffer) const {
  std::vector<bool> mask(buffer.memory.size(), false);
  for (const ir::Output& output : program_.ir().outputs)
    for (const TensorView& segment : tensors.at(output.name).segments) {
      const auto* data = static_cast<std::byte*>(segment.data);
      if (data < buffer.data || data > buffer.data + buffer.size) continue;
      for_each(segment, [&](int64_t i, int64_t j) {
        const auto at = static_cast<size_t>(element(segment, i, j) - buffer.memory.data());
        for (size_t byte = 0; byte < size_of(segment.dtype); ++byte) mask[at + byte] = true;
      });
    }
  return mask;
}

void TestCall::run() {
  const ir::Program& ir = program_.ir();
  const BoundCall bound = bind(instance(), arguments(), {});
  const std::vector<reference::Dense> inputs = reference::inputs_of(ir, bound);
  const std::vector<reference::Dense> expected =
      reference::evaluate(ir, bound.symbols, inputs, {.type = type_});
  const std::deque<Buffer> before = buffers_;
  launch();
  for (size_t i = 0; i < ir.outputs.size(); ++i) {
    const reference::Comparison comparison = reference::compare(bound.outputs[i], expected[i]);
    EXPECT_TRUE(comparison.ok()) << ir.name << ", output " << ir.outputs[i].name << ": "
                                 << reference::to_string(comparison);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    const std::vector<bool> mask = written_mask(buffers_[i]);
    for (size_t byte = 0; byte < mask.size(); ++byte) {
      if (mask[byte] || buffers_[i].memory[byte] == before[i].memory[byte]) continue;
      ADD_FAILURE() << ir.name << ": byte " << buffers_[i].memory.data() + byte - buffers_[i].data
                    << " of a buffer of " << buffers_[i].size << " was written";
      break;
    }
  }
}

double TestCall::at(const std::string& name, int64_t row, int64_t column) const {
  return load(tensors.at(name).segments.at(0), row, column);
}

std::vector<std::byte> TestCall::bytes(const std::string& name) const {
  std::vector<std::byte> result;
  const TensorView& source = tensors.at(name).segments.at(0);
  for_each(source, [&](int64_t i, int64_t j) {
    const std::byte* from = element(source, i, j);
    result.insert(result.end(), from, from + size_of(source.dtype));
  });
  return result;
}

}  // namespace coda::test

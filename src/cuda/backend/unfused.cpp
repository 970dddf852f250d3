// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/unfused.h"

#include <coda/error.h>

#include <algorithm>

#include "cuda/backend/device_text.h"
#include "cuda/backend/products.h"
#include "ir/simplify.h"

namespace coda::cuda {
namespace {

/// Whether an update in place would be seen by a read: columns that are paired are read by the
/// threads of their partners, and outputs of several shapes are made in several passes.
bool reads_around(const Instance& instance) {
  const ir::Program program = ir::eliminate(*instance.program);
  for (const ir::Output& output : program.outputs)
    if (!(output.dims == program.outputs.front().dims)) return true;
  const std::vector<ir::ValueId> live = ir::live_nodes(program);
  return std::any_of(live.begin(), live.end(), [&](ir::ValueId id) {
    const ir::Node& node = program.nodes[id];
    return std::holds_alternative<ir::Split>(node) || std::holds_alternative<ir::Join>(node) ||
           std::holds_alternative<ir::Swap>(node);
  });
}

/// Whether an output may be an update of an input in place, as far as shapes tell: the workspace
/// must not depend on addresses.
bool may_be_in_place(const Planning& planning, size_t output) {
  const ir::Program& program = *planning.instance.program;
  const View& out = planning.call.outputs[output].segments.at(0).view;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].kind != ir::Input::Kind::tensor ||
        !(program.inputs[i].dims == program.outputs[output].dims))
      continue;
    const View& in = planning.call.inputs[i].segments.at(0).view;
    if (in.dtype == out.dtype && in.row_stride == out.row_stride &&
        in.column_stride == out.column_stride)
      return true;
  }
  return false;
}

LtType lt_type(DType type) {
  return type == DType::f32 ? kLtF32 : type == DType::bf16 ? kLtBf16 : kLtF16;
}

/// How cuBLASLt reads a matrix of rows x k; nothing where it cannot.
std::optional<Operand> operand_of(const View& view, int64_t rows, int64_t k) {
  const int64_t row = rows <= 1 ? k : view.row_stride, column = k <= 1 ? 1 : view.column_stride;
  const int alignment = alignment_of(view.data);
  if (column == 1 && row >= k) return Operand{true, row, alignment};
  const int64_t down = rows <= 1 ? 1 : view.row_stride, right = k <= 1 ? rows : view.column_stride;
  if (down == 1 && right >= rows) return Operand{false, right, alignment};
  return std::nullopt;
}

/// One segment of B, or A, as a matrix that cuBLASLt reads: itself or a copy.
View readable(const Planning& planning, const Copier& copier, const View& view, int64_t rows,
              int64_t k) {
  if (operand_of(view, rows, k)) return view;
  const int64_t bytes = rows * k * static_cast<int64_t>(size_of(view.dtype));
  const View copy{static_cast<std::byte*>(planning.work.take(bytes)), k, 1, view.dtype};
  if (planning.steps) copier.copy(*planning.steps, *planning.gpu, view, copy, rows, k);
  return copy;
}

}  // namespace

Pointwise Unfused::kernels(const Instance& instance) {
  return generate_pointwise(instance, "coda_" + instance.program->name);
}

Source Unfused::source(const Instance& instance, const Pointwise& kernels) {
  return {instance.program->name + "-unfused",
          assemble_source(DeviceText::standalone, kernels.text)};
}

Unfused::Unfused(const Instance& instance, const std::string& architecture, const Gpu* gpu)
    : kernels_(kernels(instance)),
      reads_around_(reads_around(instance)),
      loaded_(
          source(instance, kernels_), architecture, gpu,
          [&] {
            std::vector<LoadedSource::Wanted> wanted;
            for (const PointwisePass& pass : kernels_.passes) wanted.push_back({pass.kernel, 0});
            return wanted;
          }(),
          true),
      copier_(architecture, gpu) {}

void Unfused::plan_products(const Planning& planning, const std::vector<Product>& products,
                            const View& out, void* workspace) const {
  const BoundCall& call = planning.call;
  if (call.m == 0 || call.n == 0) return;
  bool accumulate = false;
  for (const Product& product : products) {
    if (product.k == 0) continue;
    const View a = readable(planning, copier_, product.a.segments.at(0).view, call.m, product.k);
    for (const Segment& segment : product.b.segments) {
      const int64_t n = segment.end - segment.begin;
      const View b = readable(planning, copier_, segment.view, n, product.k);
      if (!planning.steps) continue;
      std::byte* const to = out.data + segment.begin * 4;
      const ProductShape shape{call.m,
                               n,
                               product.k,
                               lt_type(a.dtype),
                               kLtF32,
                               *operand_of(a, call.m, product.k),
                               *operand_of(b, n, product.k),
                               out.row_stride,
                               alignment_of(to),
                               accumulate};
      planning.steps->product(std::make_shared<ProductPlan>(*planning.gpu, shape), a.data, b.data,
                              to, workspace);
    }
    accumulate = true;
  }
  if (!accumulate && planning.steps) planning.steps->clear(out.data, call.m * out.row_stride * 4);
}

void Unfused::plan(const Planning& planning) const {
  const ir::Program& program = *planning.instance.program;
  const BoundCall& call = planning.call;
  std::vector<View> views;
  const bool multiplies = std::any_of(call.products.begin(), call.products.end(),
                                      [](const auto& products) { return !products.empty(); });
  void* const workspace = multiplies ? planning.work.take(kProductWorkspace) : nullptr;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    View view;
    if (program.inputs[i].kind == ir::Input::Kind::accumulator) {
      // Float32 rows of a multiple of 4 columns, so that cuBLASLt may store 16 bytes at a time.
      const int64_t pitch = (call.n + 3) / 4 * 4;
      view = {static_cast<std::byte*>(planning.work.take(call.m * pitch * 4)), pitch, 1,
              DType::f32};
      plan_products(planning, call.products[i], view, workspace);
    } else if (program.inputs[i].kind == ir::Input::Kind::tensor) {
      view = whole_input(planning, copier_, call.inputs[i]);
    }
    views.push_back(view);
  }
  std::vector<size_t> aside;  // outputs that are written to the workspace first
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Binding& binding = call.outputs[i];
    if (binding.segments.size() > 1 || (reads_around_ && may_be_in_place(planning, i))) {
      aside.push_back(i);
      views.push_back(contiguous_like(planning, binding));
    } else {
      views.push_back(binding.segments.at(0).view);
    }
  }
  const std::vector<void*> work = take_work(planning, kernels_, 0, 0);
  queue_passes(planning, kernels_, loaded_, 0, views, work, 0, 0);
  for (const size_t i : aside)
    copy_back(planning, copier_, views[program.inputs.size() + i], call.outputs[i]);
}

}  // namespace coda::cuda

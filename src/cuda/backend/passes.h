// SPDX-License-Identifier: Apache-2.0
// The host side of stand-alone kernels: their arguments, their arrays in the workspace, and copies
// of tensors that lie in a form a kernel cannot read.
#pragma once

#include <string>
#include <vector>

#include "cuda/backend/sequence.h"
#include "cuda/codegen/pointwise.h"

namespace coda::cuda {

/// Where a call is planned: the workspace is always shared out; steps are made where `steps` is
/// set (not while only the size is asked for).
struct Planning {
  const Instance& instance;
  const BoundCall& call;
  const Gpu* gpu;  // set with `steps`
  Workspace& work;
  Sequence* steps;
};

/// Copies of matrices of any strides. Its kernels are loaded at the first copy.
class Copier {
 public:
  Copier(const std::string& architecture, const Gpu* gpu)
      : architecture_(architecture), gpu_(gpu) {}
  void copy(Sequence& steps, const Gpu& gpu, const View& from, const View& to, int64_t rows,
            int64_t columns) const;

 private:
  const LoadedSource& loaded() const;

  std::string architecture_;
  const Gpu* gpu_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const LoadedSource> loaded_;
};

/// A view of the whole binding: its own where it is one segment, otherwise a contiguous array in
/// the workspace, which for inputs is filled first.
View whole_input(const Planning& planning, const Copier& copier, const Binding& binding,
                 bool contiguous = false);
/// An array in the workspace like the binding, and the copy back.
View contiguous_like(const Planning& planning, const Binding& binding);
void copy_back(const Planning& planning, const Copier& copier, const View& from, const Binding& to);

/// Extents of dims in a call.
int64_t columns_of(const ir::Columns& columns, const BoundCall& call);
inline int64_t rows_of(const ir::Dims& dims, const BoundCall& call) {
  return dims.rows ? call.m : 1;
}

/// The workspace arrays of generated passes; tiles_m and tiles_n as PointwiseWork counts them.
std::vector<void*> take_work(const Planning& planning, const Pointwise& passes, int64_t tiles_m,
                             int64_t tiles_n);

/// Queues the passes. views: inputs, then outputs.
void queue_passes(const Planning& planning, const Pointwise& passes, const LoadedSource& loaded,
                  size_t first_function, const std::vector<View>& views,
                  const std::vector<void*>& work, int64_t tiles_m, int64_t tiles_n);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// What a device makes of an instance. compile() picks the backend; bind() has checked every call
// before one of these sees it.
#pragma once

#include <memory>

#include "call/call.h"

namespace coda {

/// A compiled program: immutable, used from several threads at once.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Looks at sizes, strides and types alone: data may be null.
  virtual size_t workspace_bytes(const BoundCall& call) const = 0;
  /// `workspace` has workspace_bytes(call) bytes, aligned to kWorkspaceAlignment.
  virtual void launch(void* stream, const BoundCall& call, void* workspace) const = 0;
};

/// The CUDA backend; where it is not built, no_cuda/ stands in and refuses.
std::shared_ptr<const Executable> compile_for_cuda(const Instance& instance, Device device,
                                                   const CompileOptions& options);

}  // namespace coda

// SPDX-License-Identifier: Apache-2.0
// Machine code in the driver, and its launch.
#pragma once

#include <span>
#include <string_view>

#include "cuda/runtime/context.h"

namespace coda::cuda {

/// A loaded cubin. It belongs to no context; a function of it does.
class Module {
 public:
  /// `image` is copied by the driver: it need not outlive the call.
  explicit Module(std::string_view image);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  /// The kernel called `name`, loaded into `context` now, so that a first launch inside a capture
  /// loads nothing; allowed `shared_bytes` of dynamic shared memory. Valid as long as this module
  /// and the context live.
  FunctionHandle function(const Context& context, const char* name, int shared_bytes) const;

 private:
  LibraryHandle library_ = nullptr;
};

struct Launch {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;  // dynamic
  StreamHandle stream = nullptr;
  bool programmatic = false;  // may start before the kernel in front of it ends
};

/// `arguments` points to each parameter's value; they are read before this returns.
void launch(const Context& context, FunctionHandle function, const Launch& how,
            std::span<void*> arguments);

/// How many clusters of `size` blocks the GPU can run at once, with what `how` says of a block.
/// Fewer than its multiprocessors allow where they come in groups that `size` does not divide.
int clusters_at_once(const Context& context, FunctionHandle function, const Launch& how, int size);

}  // namespace coda::cuda

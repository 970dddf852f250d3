// SPDX-License-Identifier: Apache-2.0
// The CPU backend: a program compiled for the processor at hand, and its calls.
//
// A call is cut into tiles of about 256 x 256; for each, the mainloop makes the accumulators and
// the program runs while they are in cache. Unfused, all accumulators are made first, in the
// workspace, and the program reads them from there. Reductions over the whole matrix are kept per
// tile and combined in a fixed order: results have the same bits for any number of threads, and
// fused or not.
#pragma once

#include <memory>
#include <optional>

#include "call/call.h"
#include "cpu/isa.h"
#include "cpu/mainloop.h"

namespace coda::cpu {

struct Options {
  bool fused = true;
  int threads = 0;              // 0: one per core
  std::optional<Isa> isa;       // the widest if not given
  bool plain_mainloop = false;  // though oneDNN is there
};

/// Immutable; calls may run at once, each with its own workspace.
class Kernel {
 public:
  Kernel(Instance instance, const Options& options);

  /// Depends on the shape, not on the contents or pointers of a call.
  size_t workspace_bytes(const BoundCall& call) const;
  /// Returns when the outputs are written. `workspace` may have any alignment.
  void launch(const BoundCall& call, std::byte* workspace) const;

  const char* mainloop() const { return mainloop_->name(); }

 private:
  Instance instance_;
  Options options_;
  Isa isa_;
  std::shared_ptr<const Mainloop> mainloop_;
};

/// Throws Error{unsupported} for an instruction set that the processor lacks.
std::shared_ptr<const Kernel> compile(Instance instance, const Options& options);

}  // namespace coda::cpu

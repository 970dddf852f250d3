// SPDX-License-Identifier: Apache-2.0
// Executes a plan on the CPU: kernels compiled once, any number of tokens, memory given by the
// caller.
#pragma once

#include <coda/kernel.h>
#include <coda/tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "execute/layout.h"

namespace coda::execute {

/// Memory of the plan's inputs and outputs by name: rows packed, of the type the plan declares.
using Tensors = std::map<std::string, void*, std::less<>>;

struct Run {
  int64_t tokens = 0;
  bool forward = true, backward = true;
  /// Sums over tokens (gradients, the loss) are added to what their outputs hold.
  bool accumulate = false;
  /// Where packed sequences begin, and the number of tokens: 0, ..., tokens. Empty: one sequence.
  std::span<const int64_t> sequences;
};

/// Immutable and usable from several threads, each with its own arena.
class Executor {
 public:
  /// `type` is T; `threads` as in CompileOptions.
  Executor(rewrite::Plan plan, DType type, int threads = 0);

  const rewrite::Plan& plan() const { return plan_; }
  DType type() const { return type_; }
  DType storage(const rewrite::Buffer& buffer) const {
    return buffer.type.generic ? type_ : buffer.type.dtype;
  }

  /// Bytes of arena for a run, aligned to kWorkspaceAlignment: buffers, then workspace, which
  /// depends on the sequences as well.
  size_t arena_bytes(int64_t tokens, std::span<const int64_t> sequences = {}) const;
  Layout layout(int64_t tokens) const;

  /// Throws Error{argument} where a tensor that the steps need is missing or null, or an id or a
  /// label is out of range, before any step runs. Backward steps read what forward steps left in
  /// the same arena.
  void run(const Run& run, const Tensors& tensors, void* arena, size_t arena_size) const;

 private:
  struct Kernels {
    std::shared_ptr<const Kernel> first, adding;
    std::vector<size_t> sums;  // outputs that are sums over tokens, and may have to be added
  };
  class Call;

  const rewrite::Plan plan_;
  const DType type_;
  const int threads_;
  std::vector<Kernels> kernels_;                        // by step; empty for opaque ops
  std::map<DType, std::shared_ptr<const Kernel>> add_;  // one vector to another, in place
  mutable std::mutex mutex_;
  struct Sizes {
    std::shared_ptr<const Layout> layout;
    size_t workspace = 0, sums = 0;  // bytes behind the buffers
    size_t total() const { return layout->bytes + workspace + sums; }
  };
  Sizes sizes(int64_t tokens, std::span<const int64_t> sequences) const;
  Sizes fixed_sizes(int64_t tokens) const;
  mutable std::map<int64_t, Sizes> sizes_;  // by tokens, without attention's workspace
};

}  // namespace coda::execute

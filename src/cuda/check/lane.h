// SPDX-License-Identifier: Apache-2.0
// One task on the GPU: drawn in host memory, run from copies in device memory with the same
// alignment, margins and poison, and held against float64.
#pragma once

#include <string>

#include "cuda/backend/kernel.h"
#include "cuda/check/tasks.h"
#include "cuda/runtime/stream.h"

namespace coda::cuda {

struct Outcome {
  bool ok = true;
  std::string way;      // "fused pingpong 128x192 ..." or "unfused: reason"
  double ratio = 0;     // largest error / tolerance
  std::string message;  // what is wrong
};

/// Memory and a stream of one worker thread, kept between tasks.
class Lane {
 public:
  /// Every call is launched so many times, the second time captured in a graph; all must give the
  /// same bits.
  Lane(std::shared_ptr<const Gpu> gpu, int launches);

  /// The outcomes of both ways: fused (as far as the call can be) and unfused.
  std::vector<Outcome> run(const Task& task);

 private:
  Outcome run_one(const Task& task, bool fused, check::DrawnCall& drawn, const BoundCall& call,
                  const std::vector<reference::Dense>& expected);
  void launch_all(const std::string& what, const CudaKernel& kernel, check::DrawnCall& drawn,
                  const BoundCall& call, Outcome& outcome);
  void reserve(Memory& memory, size_t bytes);

  std::shared_ptr<const Gpu> gpu_;
  Stream stream_;
  Memory tensors_, workspace_;
  int launches_;
};

/// The task's call as the mainloop takes it; nothing, and the reason, where it cannot.
std::optional<FusedCall> fused_call(const Task& task, std::string* why);

inline constexpr double kHangSeconds = 20;
inline constexpr size_t kCanary = 4096;  // bytes behind the workspace

/// Since when a launch has been under way in any lane (0: none is), and of which task.
struct Watch {
  static void begin(const std::string& what);
  static void end();
  /// Ends the process, naming the task, when a launch takes longer than so many seconds.
  static void start(double seconds);
};

}  // namespace coda::cuda

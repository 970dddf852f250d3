// SPDX-License-Identifier: Apache-2.0
// The engine behind `coda check --device cuda`: tasks on a GPU, fused and unfused, against float64,
// with poisoned outputs, canaries, and more launches (the second captured in a graph) that must
// give the same bits.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "cuda/backend/gpu.h"
#include "cuda/check/tasks.h"

namespace coda::cuda {

struct CheckOptions {
  TaskOptions tasks;
  int threads = 0;                     // workers, also of the compiler; 0: one per core
  int launches = 2;                    // of each call
  double seconds = 0;                  // no task is begun after so many; 0: no limit
  std::string command = "coda check";  // what repeats a failure begins with
  std::function<void(int done, int total)> progress;  // called from one thread at a time
};

/// One report for each program, in the order of the tasks. A launch that fails on the device, or
/// hangs, ends the process after naming its task: nothing that follows it would count.
std::vector<check::Report> check_on_gpu(const std::shared_ptr<const Gpu>& gpu,
                                        const CheckOptions& options);

/// Compiles what the tasks run, without a GPU.
void compile_tasks(std::span<const Task> tasks, int workers);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// What ptxas says about the kernels that it built (--ptxas-options=-v), and which of it makes a
// kernel unfit: local memory, and wgmma or setmaxnreg that it gave up on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coda::cuda {

struct KernelResources {
  std::string name;
  int registers = 0;  // a thread
  int barriers = 0;
  int shared_bytes = 0;  // static
  int stack_bytes = 0;   // a thread, as the next two; the most of the kernel and what it calls
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  bool operator==(const KernelResources&) const = default;
};

/// The kernels of a log, in its order.
std::vector<KernelResources> parse_ptxas_log(std::string_view log);

/// Why a kernel is unfit, one reason a line; "" where all are fit.
std::string find_faults(std::string_view log, const std::vector<KernelResources>& kernels);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// What fake_gpu.cpp records, and a place for what a kernel would do.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/runtime/types.h"

namespace coda::cuda {

/// What the fake writes in place of a tensor map.
struct FakeMap {
  void* base;
  uint64_t columns, rows, pitch_bytes;
  uint32_t box_columns, box_rows;
  int type, swizzle;
};

struct FakeLaunch {
  std::string kernel;
  unsigned blocks, threads, shared_bytes;
  std::byte argument[8192];  // the kernel's parameter, and what lies behind it
};

struct FakeRecord {
  std::vector<FakeLaunch> launches;
  int maps_made = 0;
  /// Called after each launch with `user`. Memory that was allocated is memory of the process.
  void (*compute)(void* user) = nullptr;
  void* user = nullptr;
};

}  // namespace coda::cuda

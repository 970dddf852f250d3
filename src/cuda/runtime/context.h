// SPDX-License-Identifier: Apache-2.0
// Devices and contexts. coda works in the primary context of each device, which frameworks use too,
// and leaves the caller's current context as it was.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "cuda/runtime/library.h"

namespace coda::cuda {

[[noreturn]] void throw_driver_error(Result status, const char* call);

/// Throws Error{device} for anything but success: CUDA's name and text of `status`, and `call`.
inline void check(Result status, const char* call) {
  if (status != 0) throw_driver_error(status, call);
}

struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int shared_bytes = 0;  // the most a block can have
  int l2_bytes = 0;
  size_t memory_bytes = 0;
};

int device_count();
/// Error{argument} for an ordinal that does not exist.
DeviceInfo device_info(int ordinal);

/// Keeps a device's primary context alive.
class Context {
 public:
  /// The context of device `ordinal`, which is created if nobody has done so. Error{argument} for
  /// an ordinal that does not exist.
  static std::shared_ptr<const Context> retain(int ordinal);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  ContextHandle handle() const { return handle_; }
  int ordinal() const { return ordinal_; }

 private:
  explicit Context(int ordinal);

  int ordinal_;
  DeviceId device_ = 0;
  ContextHandle handle_ = nullptr;
};
using ContextPointer = std::shared_ptr<const Context>;

/// Makes a context current for this thread while it lives. Costs one call where it is current
/// already.
class ContextGuard {
 public:
  explicit ContextGuard(const Context& context);
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard();

 private:
  bool pushed_ = false;
};

}  // namespace coda::cuda

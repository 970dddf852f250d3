// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/context.h"

#include <coda/error.h>

namespace coda::cuda {
namespace {

DeviceId device_of(int ordinal) {
  const int count = device_count();
  if (ordinal < 0 || ordinal >= count)
    throw Error(ErrorKind::argument, "[cuda] device",
                "an index below the number of devices, " + std::to_string(count),
                std::to_string(ordinal), "see CUDA_VISIBLE_DEVICES");
  DeviceId device = 0;
  check(driver().cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

int attribute(DeviceId device, DeviceAttribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

void throw_driver_error(Result status, const char* call) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().cuGetErrorName(status, &name);
  driver().cuGetErrorString(status, &text);
  const std::string got = (name != nullptr ? name : "error " + std::to_string(status)) +
                          (text != nullptr ? " (" + std::string(text) + ")" : "");
  throw Error(ErrorKind::device, std::string("[cuda] ") + call, "success", got);
}

int device_count() {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

DeviceInfo device_info(int ordinal) {
  const DeviceId device = device_of(ordinal);
  DeviceInfo info;
  char name[256] = "";
  check(driver().cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  info.name = name;
  info.major = attribute(device, kComputeMajor);
  info.minor = attribute(device, kComputeMinor);
  info.multiprocessors = attribute(device, kMultiprocessors);
  info.shared_bytes = attribute(device, kSharedBytesPerBlock);
  info.l2_bytes = attribute(device, kL2Bytes);
  check(driver().cuDeviceTotalMem(&info.memory_bytes, device), "cuDeviceTotalMem");
  return info;
}

std::shared_ptr<const Context> Context::retain(int ordinal) {
  return std::shared_ptr<const Context>(new Context(ordinal));
}

Context::Context(int ordinal) : ordinal_(ordinal), device_(device_of(ordinal)) {
  check(driver().cuDevicePrimaryCtxRetain(&handle_, device_), "cuDevicePrimaryCtxRetain");
}

Context::~Context() { driver().cuDevicePrimaryCtxRelease(device_); }

ContextGuard::ContextGuard(const Context& context) {
  ContextHandle current = nullptr;
  check(driver().cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == context.handle()) return;
  check(driver().cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
  pushed_ = true;
}

ContextGuard::~ContextGuard() {
  ContextHandle popped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent(&popped);
}

}  // namespace coda::cuda

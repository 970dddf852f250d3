// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU: two devices, contexts with a stack for each thread, memory of the
// host. As strict as the real one where a context must be current, and stricter where an object
// must be freed in its own. Launches and captures are only counted.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cuda/runtime/types.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace coda::cuda {
namespace {

enum : Result { kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201 };

struct Object {
  ContextHandle context;
};

int retained[2];               // of each primary context
std::map<void*, Object> live;  // every object that is not destroyed yet
thread_local std::vector<ContextHandle> stack;
bool capturing;
LaunchConfig last_launch;
int launches;

ContextHandle context_of(DeviceId device) {
  return reinterpret_cast<ContextHandle>(&retained[device]);
}
ContextHandle current() { return stack.empty() ? nullptr : stack.back(); }

/// A new object of the current context.
template <class Handle>
Result make(Handle* handle, size_t bytes = 16) {
  if (current() == nullptr) return kInvalidContext;
  void* object = bytes > size_t{1} << 40 ? nullptr : std::malloc(bytes);
  if (object == nullptr) return kOutOfMemory;
  live[object] = {current()};
  *handle = (Handle)object;  // NOLINT: a pointer or an address
  return kOk;
}

template <class Handle>
Result destroy(Handle handle) {
  const auto at = live.find((void*)handle);  // NOLINT
  if (at == live.end()) return kInvalidValue;
  if (at->second.context != current()) return kInvalidContext;
  std::free(at->first);
  live.erase(at);
  return kOk;
}

Result needs_context() { return current() == nullptr ? kInvalidContext : kOk; }

Result copy(void* to, const void* from, size_t bytes) {
  if (current() != nullptr) std::memcpy(to, from, bytes);
  return needs_context();
}

void* at(DevicePointer address) { return reinterpret_cast<void*>(address); }

Result error_text(Result status, const char** text, bool name) {
  const char* names[] = {"CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_OUT_OF_MEMORY"};
  const char* texts[] = {"no error", "invalid argument", "out of memory"};
  *text = status > 2 ? nullptr : name ? names[status] : texts[status];
  return status > 2 ? kInvalidValue : kOk;
}

/// What every function without an entry below does.
Result refuse() { return 999; }

template <class Result, class... Parameters>
void* entry(Result (*function)(Parameters...)) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> table = {
      {"cuInit", entry(+[](unsigned) { return Result{kOk}; })},
      {"cuGetErrorName", entry(+[](Result s, const char** t) { return error_text(s, t, true); })},
      {"cuGetErrorString",
       entry(+[](Result s, const char** t) { return error_text(s, t, false); })},
      {"cuDeviceGetCount", entry(+[](int* count) { return *count = 2, Result{kOk}; })},
      {"cuDeviceGet",
       entry(+[](DeviceId* device, int ordinal) { return *device = ordinal, Result{kOk}; })},
      {"cuDevicePrimaryCtxRetain", entry(+[](ContextHandle* context, DeviceId device) {
         ++retained[device];
         *context = context_of(device);
         return Result{kOk};
       })},
      {"cuDevicePrimaryCtxRelease",
       entry(+[](DeviceId device) { return --retained[device], Result{kOk}; })},
      {"cuCtxGetCurrent",
       entry(+[](ContextHandle* context) { return *context = current(), Result{kOk}; })},
      {"cuCtxPushCurrent",
       entry(+[](ContextHandle context) { return stack.push_back(context), Result{kOk}; })},
      {"cuCtxPopCurrent", entry(+[](ContextHandle* context) {
         if (stack.empty()) return Result{kInvalidContext};
         *context = stack.back();
         stack.pop_back();
         return Result{kOk};
       })},
      {"cuMemAlloc", entry(+[](DevicePointer* p, size_t bytes) { return make(p, bytes); })},
      {"cuMemFree", entry(+[](DevicePointer p) { return destroy(p); })},
      {"cuMemcpyHtoDAsync", entry(+[](DevicePointer to, const void* from, size_t bytes,
                                      StreamHandle) { return copy(at(to), from, bytes); })},
      {"cuMemcpyDtoHAsync", entry(+[](void* to, DevicePointer from, size_t bytes, StreamHandle) {
         return copy(to, at(from), bytes);
       })},
      {"cuMemcpyDtoDAsync", entry(+[](DevicePointer to, DevicePointer from, size_t bytes,
                                      StreamHandle) { return copy(at(to), at(from), bytes); })},
      {"cuMemsetD8Async",
       entry(+[](DevicePointer to, unsigned char value, size_t bytes, StreamHandle) {
         std::memset(at(to), value, bytes);
         return needs_context();
       })},
      {"cuStreamCreate", entry(+[](StreamHandle* stream, unsigned) { return make(stream); })},
      {"cuStreamDestroy", entry(+[](StreamHandle stream) { return destroy(stream); })},
      {"cuStreamSynchronize", entry(+[](StreamHandle) { return needs_context(); })},
      {"cuStreamBeginCapture", entry(+[](StreamHandle, int) {
         if (capturing) return Result{kInvalidValue};
         capturing = true;
         return needs_context();
       })},
      {"cuStreamEndCapture", entry(+[](StreamHandle, GraphHandle* graph) {
         if (!capturing) return Result{kInvalidValue};
         capturing = false;
         return make(graph);
       })},
      {"cuGraphInstantiateWithFlags",
       entry(+[](GraphExecHandle* exec, GraphHandle, unsigned long long) { return make(exec); })},
      {"cuGraphDestroy", entry(+[](GraphHandle graph) { return destroy(graph); })},
      {"cuGraphExecDestroy", entry(+[](GraphExecHandle exec) { return destroy(exec); })},
      {"cuGraphLaunch", entry(+[](GraphExecHandle, StreamHandle) { return needs_context(); })},
      {"cuEventCreate", entry(+[](EventHandle* event, unsigned) { return make(event); })},
      {"cuEventDestroy", entry(+[](EventHandle event) { return destroy(event); })},
      {"cuEventRecord", entry(+[](EventHandle, StreamHandle) { return needs_context(); })},
      {"cuLaunchKernelEx", entry(+[](const LaunchConfig* config, FunctionHandle, void**, void**) {
         last_launch = *config;
         ++launches;
         return needs_context();
       })},
  };
  return table;
}

}  // namespace

EXPORT Result cuDriverGetVersion(int* version) { return *version = 12040, kOk; }

EXPORT Result cuGetProcAddress_v2(const char* name, void** address, int, uint64_t, int*) {
  const auto found = functions().find(name);
  *address = found == functions().end() ? entry(refuse) : found->second;
  return kOk;
}

EXPORT size_t fake_live_objects() { return live.size(); }
EXPORT int fake_retained(int device) { return retained[device]; }
EXPORT int fake_capturing() { return capturing; }
EXPORT const LaunchConfig* fake_last_launch() { return &last_launch; }

}  // namespace coda::cuda

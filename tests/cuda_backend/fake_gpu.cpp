// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that runs nothing: one H200 by its numbers, and a record of what was launched and
// which tensor maps were made. Its memory is the process's own.
#include "fake_gpu.h"

#include <sys/mman.h>

#include <cstring>
#include <map>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace coda::cuda {
namespace {

FakeRecord record;
ContextHandle current_context;
std::vector<ContextHandle> below;
int primary;

std::map<DevicePointer, size_t> allocated;

void* host(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

bool is_allocated(DevicePointer pointer) {
  const auto after = allocated.upper_bound(pointer);
  if (after == allocated.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return pointer - begin < bytes;
}

Result refuse() { return 999; }

template <class Result, class... Parameters>
void* entry(Result (*function)(Parameters...)) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> table = {
      {"cuInit", entry(+[](unsigned) { return Result{0}; })},
      {"cuGetErrorName", entry(+[](Result, const char** t) { return *t = "fake", Result{0}; })},
      {"cuGetErrorString", entry(+[](Result, const char** t) { return *t = "fake", Result{0}; })},
      {"cuDeviceGetCount", entry(+[](int* count) { return *count = 1, Result{0}; })},
      {"cuDeviceGet", entry(+[](DeviceId* device, int) { return *device = 0, Result{0}; })},
      {"cuDeviceGetName", entry(+[](char* name, int, DeviceId) {
         std::strcpy(name, "no GPU");
         return Result{0};
       })},
      {"cuDeviceGetAttribute", entry(+[](int* value, int attribute, DeviceId) {
         *value = attribute == kMultiprocessors       ? 132
                  : attribute == kComputeMajor        ? 9
                  : attribute == kSharedBytesPerBlock ? 232448
                                                      : 0;
         return Result{0};
       })},
      {"cuDeviceTotalMem",
       entry(+[](size_t* bytes, DeviceId) { return *bytes = size_t{1} << 37, Result{0}; })},
      {"cuDevicePrimaryCtxRetain", entry(+[](ContextHandle* context, DeviceId) {
         *context = reinterpret_cast<ContextHandle>(&primary);
         return Result{0};
       })},
      {"cuDevicePrimaryCtxRelease", entry(+[](DeviceId) { return Result{0}; })},
      {"cuCtxGetCurrent",
       entry(+[](ContextHandle* context) { return *context = current_context, Result{0}; })},
      {"cuCtxPushCurrent", entry(+[](ContextHandle context) {
         below.push_back(current_context);
         current_context = context;
         return Result{0};
       })},
      {"cuCtxPopCurrent", entry(+[](ContextHandle* context) {
         *context = current_context;
         current_context = below.back();
         below.pop_back();
         return Result{0};
       })},
      {"cuLibraryLoadData", entry(+[](LibraryHandle* library, const void*, int*, void**, unsigned,
                                      int*, void**, unsigned) {
         *library = reinterpret_cast<LibraryHandle>(&primary);
         return Result{0};
       })},
      {"cuLibraryUnload", entry(+[](LibraryHandle) { return Result{0}; })},
      {"cuLibraryGetKernel", entry(+[](KernelHandle* kernel, LibraryHandle, const char* name) {
         *kernel = reinterpret_cast<KernelHandle>(new std::string(name));
         return Result{0};
       })},
      {"cuKernelGetFunction", entry(+[](FunctionHandle* function, KernelHandle kernel) {
         *function = reinterpret_cast<FunctionHandle>(kernel);
         return Result{0};
       })},
      {"cuFuncSetAttribute", entry(+[](FunctionHandle, int, int) { return Result{0}; })},
      {"cuMemAlloc", entry(+[](DevicePointer* pointer, size_t bytes) {
         constexpr int kLazy = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
         void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kLazy, -1, 0);
         if (memory == MAP_FAILED) return refuse();
         *pointer = reinterpret_cast<DevicePointer>(memory);
         allocated[*pointer] = bytes;
         return Result{0};
       })},
      {"cuMemFree", entry(+[](DevicePointer pointer) {
         munmap(host(pointer), allocated.at(pointer));
         allocated.erase(pointer);
         return Result{0};
       })},
      {"cuMemcpyHtoDAsync",
       entry(+[](DevicePointer to, const void* from, size_t bytes, StreamHandle) {
         std::memcpy(host(to), from, bytes);
         return Result{0};
       })},
      {"cuMemcpyDtoHAsync", entry(+[](void* to, DevicePointer from, size_t bytes, StreamHandle) {
         std::memcpy(to, host(from), bytes);
         return Result{0};
       })},
      {"cuMemcpyDtoDAsync",
       entry(+[](DevicePointer to, DevicePointer from, size_t bytes, StreamHandle) {
         std::memcpy(host(to), host(from), bytes);
         return Result{0};
       })},
      {"cuMemcpy2DAsync", entry(+[](const CopyLines* copy, StreamHandle) {
         if (copy->from.kind != kDeviceMemory || copy->to.kind != kHostMemory) return refuse();
         if (copy->from.pitch < copy->width_bytes || copy->to.pitch < copy->width_bytes)
           return refuse();
         auto* const to = static_cast<char*>(const_cast<void*>(copy->to.host));
         for (size_t i = 0; i < copy->height; ++i)
           std::memcpy(to + i * copy->to.pitch,
                       static_cast<char*>(host(copy->from.device)) + i * copy->from.pitch,
                       copy->width_bytes);
         return Result{0};
       })},
      {"cuStreamCreate", entry(+[](StreamHandle* stream, unsigned) {
         *stream = reinterpret_cast<StreamHandle>(&primary);
         return Result{0};
       })},
      {"cuStreamDestroy", entry(+[](StreamHandle) { return Result{0}; })},
      {"cuStreamSynchronize", entry(+[](StreamHandle) { return Result{0}; })},
      {"cuMemsetD8Async",
       entry(+[](DevicePointer to, unsigned char value, size_t bytes, StreamHandle) {
         if (is_allocated(to)) std::memset(host(to), value, bytes);
         record.launches.push_back({"clear", 0, 0, 0, {}});
         return Result{0};
       })},
      {"cuTensorMapEncodeTiled",
       entry(+[](void* map, int type, uint32_t, void* base, const uint64_t* extents,
                 const uint64_t* strides, const uint32_t* box, const uint32_t*, int, int swizzle,
                 int, int) {
         ++record.maps_made;
         const FakeMap made{base,   extents[0], extents[1], strides[0],
                            box[0], box[1],     type,       swizzle};
         std::memset(map, 0, 128);
         std::memcpy(map, &made, sizeof made);
         return Result{0};
       })},
      {"cuOccupancyMaxActiveClusters",
       entry(+[](int* clusters, FunctionHandle, const LaunchConfig* config) {
         // Groups of 18 multiprocessors, and a last one of 6.
         const int size = static_cast<int>(config->attributes->cluster[0]);
         *clusters = 7 * (18 / size) + 6 / size;
         return Result{0};
       })},
      {"cuLaunchKernelEx",
       entry(+[](const LaunchConfig* config, FunctionHandle function, void** arguments, void**) {
         FakeLaunch launch{*reinterpret_cast<const std::string*>(function),
                           config->grid[0],
                           config->block[0],
                           config->shared_bytes,
                           {}};
         std::memcpy(launch.argument, arguments[0], sizeof launch.argument);
         record.launches.push_back(launch);
         if (record.compute != nullptr) record.compute(record.user);
         return Result{current_context == nullptr ? 201 : 0};
       })},
  };
  return table;
}

}  // namespace

EXPORT Result cuDriverGetVersion(int* version) { return *version = 13000, 0; }

EXPORT Result cuGetProcAddress_v2(const char* name, void** address, int, uint64_t, int*) {
  const auto found = functions().find(name);
  *address = found == functions().end() ? entry(refuse) : found->second;
  return 0;
}

EXPORT FakeRecord* fake_record() { return &record; }

}  // namespace coda::cuda

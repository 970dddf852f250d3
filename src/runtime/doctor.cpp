// SPDX-License-Identifier: Apache-2.0
#include "runtime/doctor.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/cuda_library.h"
#include "cpu/isa.h"
#include "cpu/mainloop.h"
#include "cuda/runtime/cache.h"

namespace coda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver[] = {"libcuda.so.1"};
constexpr const char* kNvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* kCublasLt[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char* kCudnn[] = {"libcudnn.so.9"};

Finding found(std::string subject, std::string detail) {
  return {std::move(subject), true, std::move(detail), {}};
}

Finding missing(std::string subject, std::string detail, std::string fix) {
  return {std::move(subject), false, std::move(detail), std::move(fix)};
}

Finding processor() {
  constexpr const char* kNames[] = {"baseline instructions", "AVX2", "AVX-512"};
  return found("processor", fmt::format("{} cores, {}", std::thread::hardware_concurrency(),
                                        kNames[static_cast<int>(cpu::best_isa())]));
}

/// Mirrors dnnl_version_t of oneDNN, which is looked up in the process: this file builds without
/// it.
struct OneDnnVersion {
  int major, minor, patch;
};

Finding onednn() {
  const std::string subject = "oneDNN";
  const auto mainloop = cpu::make_onednn_mainloop();
  if (mainloop == nullptr)
    return missing(subject, "coda was built without it: products run in plain C++",
                   "install libdnnl-dev and build again");
  const auto version_of =
      reinterpret_cast<const OneDnnVersion* (*)()>(dlsym(RTLD_DEFAULT, "dnnl_version"));
  std::string detail = "linked";
  if (version_of != nullptr) {
    const OneDnnVersion& v = *version_of();
    detail = fmt::format("{}.{}.{}", v.major, v.minor, v.patch);
  }
  return found(subject, detail + (mainloop->takes(DType::bf16)
                                      ? ", bf16 products run natively"
                                      : ", bf16 products are widened to float32 first"));
}

Finding driver() {
  const std::string subject = "CUDA driver";
  const CudaLibrary library = open_cuda_library(kDriver);
  if (!library)
    return missing(subject, "libcuda.so.1 not found",
                   "install NVIDIA's driver; the CPU needs none");
  auto* initialise = library.function<int(unsigned)>("cuInit");
  auto* version_of = library.function<int(int*)>("cuDriverGetVersion");
  auto* count_of = library.function<int(int*)>("cuDeviceGetCount");
  auto* name_of = library.function<int(char*, int, int)>("cuDeviceGetName");
  auto* attribute = library.function<int(int*, int, int)>("cuDeviceGetAttribute");
  if (!initialise || !version_of || !count_of || !name_of || !attribute)
    return missing(subject, library.path + " lacks functions of the driver",
                   "reinstall the driver");
  if (const int status = initialise(0); status != 0)
    return missing(subject, fmt::format("{}: cuInit failed with error {}", library.path, status),
                   "see that the driver's kernel module is loaded and the device is visible");
  int version = 0, count = 0;
  if (version_of(&version) != 0 || count_of(&count) != 0 || count == 0)
    return missing(subject, library.path + " finds no device", "see CUDA_VISIBLE_DEVICES");
  std::string detail = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  for (int device = 0; device < count; ++device) {
    char name[256] = "?";
    int major = 0, minor = 0;
    name_of(name, sizeof name, device);
    attribute(&major, 75, device);  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    attribute(&minor, 76, device);  // ... and MINOR
    detail += fmt::format(", {} (sm_{}{})", name, major, minor);
  }
  return found(subject, detail);
}

Finding nvrtc() {
  const std::string subject = "NVRTC";
  const CudaLibrary library = open_cuda_library(kNvrtc);
  int major = 0, minor = 0;
  auto* version_of = library.function<int(int*, int*)>("nvrtcVersion");
  if (!version_of || version_of(&major, &minor) != 0)
    return missing(subject, "libnvrtc.so.13 and .12 not found",
                   "pip install nvidia-cuda-nvrtc, or set CUDA_HOME to a CUDA toolkit");
  return found(subject, fmt::format("{}.{}, {}", major, minor, library.path));
}

Finding cublas_lt() {
  const std::string subject = "cuBLASLt";
  const CudaLibrary library = open_cuda_library(kCublasLt);
  auto* version_of = library.function<size_t()>("cublasLtGetVersion");
  if (!version_of)
    return missing(subject, "libcublasLt.so.13 and .12 not found",
                   "pip install nvidia-cublas, or set CUDA_HOME to a CUDA toolkit");
  const size_t version = version_of();
  return found(subject, fmt::format("{}.{}.{}, {}", version / 10000, version / 100 % 100,
                                    version % 100, library.path));
}

Finding cudnn() {
  const std::string subject = "cuDNN";
  const CudaLibrary library = open_cuda_library(kCudnn);
  auto* version_of = library.function<size_t()>("cudnnGetVersion");
  if (!version_of)
    return missing(subject, "libcudnn.so.9 not found", "pip install nvidia-cudnn-cu13");
  const size_t version = version_of();
  return found(subject, fmt::format("{}.{}.{}, {}", version / 10000, version / 100 % 100,
                                    version % 100, library.path));
}

Finding cache() {
  const std::string subject = "cache folder";
  const char* const fix = "set CODA_CACHE_DIR to a folder that you may write";
  const cuda::CacheSettings settings = cuda::cache_settings();
  if (!settings.problem.empty()) return missing(subject, settings.problem, fix);
  if (settings.folder.empty()) return found(subject, "off: nothing that is compiled is kept");
  fs::path existing = settings.folder;
  std::error_code error;
  while (!existing.empty() && !fs::exists(existing, error)) existing = existing.parent_path();
  if (access(existing.c_str(), W_OK | X_OK) != 0 || !fs::is_directory(existing, error))
    return missing(subject, settings.folder + " cannot be written", fix);
  return found(subject,
               settings.folder + (existing == settings.folder ? "" : " (made at first use)"));
}

}  // namespace

std::vector<Finding> examine_machine() {
  return {processor(), onednn(), driver(), nvrtc(), cublas_lt(), cudnn(), cache()};
}

}  // namespace coda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/library.h"

#include <coda/error.h>

#include <filesystem>
#include <span>

namespace coda::cuda {
namespace {

/// Libraries of one kind: `subject` for messages, names from the preferred version down.
struct Wanted {
  const char* subject;
  ErrorKind kind;
  std::span<const char* const> names;
  const char* fix;
};

constexpr const char* kDriverNames[] = {"libcuda.so.1"};
constexpr const char* kNvrtcNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* kCublasLtNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char* kCudnnNames[] = {"libcudnn.so.9"};

constexpr Wanted kDriver = {"CUDA driver", ErrorKind::device, kDriverNames,
                            "install NVIDIA's driver, or use the CPU"};
constexpr Wanted kNvrtc = {
    "NVRTC", ErrorKind::unsupported, kNvrtcNames,
    "pip install nvidia-cuda-nvrtc, or set CODA_CUDA_PATH to the folder of libnvrtc.so"};
constexpr Wanted kCublasLt = {
    "cuBLASLt", ErrorKind::unsupported, kCublasLtNames,
    "pip install nvidia-cublas, or set CODA_CUDA_PATH to the folder of libcublasLt.so"};
constexpr Wanted kCudnn = {
    "cuDNN", ErrorKind::unsupported, kCudnnNames,
    "pip install nvidia-cudnn-cu13, or set CODA_CUDA_PATH to the folder of libcudnn.so.9"};

std::string where(const Wanted& wanted) { return std::string("[cuda] ") + wanted.subject; }

CudaLibrary open(const Wanted& wanted, const CudaSearch& search) {
  CudaLibrary library = open_cuda_library(wanted.names, search);
  if (library) return library;
  std::string names;
  for (const char* name : wanted.names) names += (names.empty() ? "" : " or ") + std::string(name);
  throw Error(wanted.kind, where(wanted), names, "none in " + search.text(), wanted.fix);
}

[[noreturn]] void throw_missing_function(const Wanted& wanted, const CudaLibrary& library,
                                         const char* name) {
  throw Error(wanted.kind, where(wanted), std::string("a library with the function ") + name,
              library.path, wanted.fix);
}

template <class Function>
void load(Function*& function, const Wanted& wanted, const CudaLibrary& library, const char* name) {
  function = library.function<Function>(name);
  if (function == nullptr) throw_missing_function(wanted, library, name);
}

std::string version_text(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void check_version(const Wanted& wanted, const CudaLibrary& library, int version) {
  if (version < kOldestCuda)
    throw Error(wanted.kind, where(wanted), version_text(kOldestCuda) + " or later",
                version_text(version) + ", " + library.path, wanted.fix);
}

/// The CUDA version that this machine's driver serves; 0 without a driver.
int driver_version(const CudaSearch& search) {
  const CudaLibrary library = open_cuda_library(kDriver.names, search);
  auto* version_of = library.function<Result(int*)>("cuDriverGetVersion");
  int version = 0;
  return version_of != nullptr && version_of(&version) == 0 ? version : 0;
}

/// A driver runs no code of a newer major version of CUDA: without the names of version 13 where it
/// serves 12.
Wanted fit_driver(Wanted wanted, const CudaSearch& search) {
  if (const int version = driver_version(search); version != 0 && version < 13000)
    wanted.names = wanted.names.subspan(1);
  return wanted;
}

}  // namespace

Driver open_driver(const CudaSearch& search) {
  using GetProcedure = Result(const char*, void**, int version, uint64_t flags, int* status);
  Driver table;
  table.library = open(kDriver, search);
  Result (*version_of)(int*);
  load(version_of, kDriver, table.library, "cuDriverGetVersion");
  if (version_of(&table.version) != 0) table.version = 0;
  check_version(kDriver, table.library, table.version);
  GetProcedure* get_procedure;
  load(get_procedure, kDriver, table.library, "cuGetProcAddress_v2");
  const auto find = [&]<class Function>(Function*& function, const char* name, int since) {
    void* address = nullptr;
    int status = 0;
    if (get_procedure(name, &address, since, 0, &status) != 0 || address == nullptr)
      throw_missing_function(kDriver, table.library, name);
    function = reinterpret_cast<Function*>(address);
  };
#define CODA_DRIVER(name, since, result, parameters) find(table.name, #name, since);
#include "cuda/runtime/functions.def"
  return table;
}

Nvrtc open_nvrtc(const CudaSearch& search) {
  const Wanted wanted = fit_driver(kNvrtc, search);
  Nvrtc table;
  table.library = open(wanted, search);
#define CODA_NVRTC(name, result, parameters) load(table.name, wanted, table.library, #name);
#include "cuda/runtime/functions.def"
  int major = 0, minor = 0;
  table.nvrtcVersion(&major, &minor);
  table.version = 1000 * major + 10 * minor;
  check_version(wanted, table.library, table.version);
  return table;
}

CublasLt open_cublas_lt(const CudaSearch& search) {
  const Wanted wanted = fit_driver(kCublasLt, search);
  CublasLt table;
  table.library = open(wanted, search);
#define CODA_CUBLAS_LT(name, result, parameters) load(table.name, wanted, table.library, #name);
#include "cuda/runtime/functions.def"
  table.version = static_cast<int>(table.cublasLtGetVersion());
  return table;
}

Cudnn open_cudnn(const CudaSearch& search) {
  Cudnn table;
  table.library = open(kCudnn, search);
#define CODA_CUDNN(name, result, parameters) load(table.name, kCudnn, table.library, #name);
#include "cuda/runtime/functions.def"
  table.version = static_cast<int>(table.cudnnGetVersion());
  return table;
}

const Driver& driver() {
  static const Driver table = [] {
    Driver opened = open_driver(CudaSearch::from_environment());
    if (const Result status = opened.cuInit(0); status != 0) {
      const char* text = nullptr;
      opened.cuGetErrorString(status, &text);
      throw Error(ErrorKind::device, where(kDriver), "a working driver and device",
                  "cuInit failed: " + std::string(text != nullptr ? text : "unknown error"),
                  "see that nvidia-smi works and CUDA_VISIBLE_DEVICES names a device");
    }
    return opened;
  }();
  return table;
}

const Nvrtc& nvrtc() {
  static const Nvrtc table = open_nvrtc(CudaSearch::from_environment());
  return table;
}

const CublasLt& cublas_lt() {
  static const CublasLt table = open_cublas_lt(CudaSearch::from_environment());
  return table;
}

const Cudnn& cudnn() {
  static const Cudnn table = open_cudnn(CudaSearch::from_environment());
  return table;
}

std::string identity(const Nvrtc& nvrtc) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(nvrtc.library.path, error);
  return "nvrtc " + std::to_string(nvrtc.version) + " " + (error ? "" : std::to_string(size));
}

}  // namespace coda::cuda

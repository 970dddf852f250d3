// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries as tables of functions. Each is opened at its first use, once, from whatever
// thread comes first; a failure is tried again at the next use. Opening initialises no device, so a
// process may fork afterwards; only driver() does.
#pragma once

#include <string>

#include "base/cuda_library.h"
#include "cuda/runtime/types.h"

namespace coda::cuda {

inline constexpr int kOldestCuda = 12040;  // CUDA 12.4

/// `version` counts as CUDA does: 12040 is 12.4 (cuBLASLt: 130100 is 13.1.0, cuDNN: 91900 is
/// 9.19.0).
struct Driver {
  CudaLibrary library;
  int version = 0;  // of CUDA that the driver serves
#define CODA_DRIVER(name, since, result, parameters) result(*name) parameters = nullptr;
#include "cuda/runtime/functions.def"
};

struct Nvrtc {
  CudaLibrary library;
  int version = 0;
#define CODA_NVRTC(name, result, parameters) result(*name) parameters = nullptr;
#include "cuda/runtime/functions.def"
};

struct CublasLt {
  CudaLibrary library;
  int version = 0;
#define CODA_CUBLAS_LT(name, result, parameters) result(*name) parameters = nullptr;
#include "cuda/runtime/functions.def"
};

struct Cudnn {
  CudaLibrary library;
  int version = 0;
#define CODA_CUDNN(name, result, parameters) result(*name) parameters = nullptr;
#include "cuda/runtime/functions.def"
};

/// Open a library as `search` says. Error{device} (driver) or Error{unsupported} (the others) says
/// what was looked for, where, and how to get it; also for versions older than CUDA 12.4.
Driver open_driver(const CudaSearch& search);
Nvrtc open_nvrtc(const CudaSearch& search);
CublasLt open_cublas_lt(const CudaSearch& search);
Cudnn open_cudnn(const CudaSearch& search);

/// The process's own tables, searched as the environment says. driver() also calls cuInit.
const Driver& driver();
const Nvrtc& nvrtc();
const CublasLt& cublas_lt();
const Cudnn& cudnn();

/// What tells two builds of NVRTC apart, the same on every machine: version and size of the
/// library.
std::string identity(const Nvrtc& nvrtc);

}  // namespace coda::cuda

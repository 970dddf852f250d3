// SPDX-License-Identifier: Apache-2.0
// Stands in for the CUDA driver (CODA_FAKE_DRIVER: its version) or NVRTC (CODA_FAKE_NVRTC: its
// major version): every function exists, and only the versions are told.
#include <cstring>

#include "cuda/runtime/types.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace coda::cuda;

#ifdef CODA_FAKE_DRIVER

EXPORT Result cuDriverGetVersion(int* version) {
  *version = CODA_FAKE_DRIVER;
  return 0;
}

EXPORT Result cuGetProcAddress_v2(const char* name, void** address, int since, uint64_t, int*) {
  const bool missing = std::strcmp(name, "cuTensorMapEncodeTiled") == 0 || since > 12040;
  *address = missing ? nullptr : reinterpret_cast<void*>(&cuDriverGetVersion);
  return missing ? 500 : 0;
}

#endif
#ifdef CODA_FAKE_NVRTC

EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = CODA_FAKE_NVRTC;
  *minor = 5;
  return 0;
}

#define STUB(name) \
  EXPORT int name() { return 1; }
STUB(nvrtcGetErrorString)
STUB(nvrtcCreateProgram)
STUB(nvrtcDestroyProgram)
STUB(nvrtcCompileProgram)
STUB(nvrtcGetProgramLogSize)
STUB(nvrtcGetProgramLog)
STUB(nvrtcGetCUBINSize)
STUB(nvrtcGetCUBIN)
STUB(nvrtcGetPTXSize)
STUB(nvrtcGetPTX)

#endif

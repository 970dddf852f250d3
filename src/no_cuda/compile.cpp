// SPDX-License-Identifier: Apache-2.0
// Stands in for the CUDA backend in builds without it.
#include <coda/error.h>

#include "call/backend.h"

namespace coda {

std::shared_ptr<const Executable> compile_for_cuda(const Instance& instance, Device device,
                                                   const CompileOptions&) {
  throw Error(ErrorKind::unsupported, "[" + instance.program->name + "] compile",
              "a device of this build: cpu", "cuda:" + std::to_string(device.index),
              "compile for Device{Device::Kind::cpu}, or use a build with CUDA");
}

}  // namespace coda

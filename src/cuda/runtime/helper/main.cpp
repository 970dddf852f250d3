// SPDX-License-Identifier: Apache-2.0
// coda-nvrtc: compiles one CUDA text in a process of its own. Started by the library alone.
#include "cuda/runtime/worker.h"

int main(int argc, char** argv) {
  return coda::cuda::run_helper({argv, static_cast<size_t>(argc)});
}

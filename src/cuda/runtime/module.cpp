// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/module.h"

#include <string>

namespace coda::cuda {

Module::Module(std::string_view image) {
  check(
      driver().cuLibraryLoadData(&library_, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cuLibraryLoadData");
}

Module::~Module() { driver().cuLibraryUnload(library_); }

FunctionHandle Module::function(const Context& context, const char* name, int shared_bytes) const {
  const ContextGuard guard(context);
  KernelHandle kernel = nullptr;
  check(driver().cuLibraryGetKernel(&kernel, library_, name), "cuLibraryGetKernel");
  FunctionHandle function = nullptr;
  check(driver().cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  if (shared_bytes > 0)
    check(driver().cuFuncSetAttribute(function, kDynamicSharedBytes, shared_bytes),
          "cuFuncSetAttribute");
  return function;
}

void launch(const Context& context, FunctionHandle function, const Launch& how,
            std::span<void*> arguments) {
  const ContextGuard guard(context);
  LaunchAttribute attribute = {kProgrammaticLaunch, 0, {}};
  attribute.programmatic = 1;
  const LaunchConfig config = {{how.grid[0], how.grid[1], how.grid[2]},
                               {how.block[0], how.block[1], how.block[2]},
                               how.shared_bytes,
                               how.stream,
                               &attribute,
                               how.programmatic ? 1u : 0u};
  check(driver().cuLaunchKernelEx(&config, function, arguments.data(), nullptr),
        "cuLaunchKernelEx");
}

int clusters_at_once(const Context& context, FunctionHandle function, const Launch& how, int size) {
  const ContextGuard guard(context);
  LaunchAttribute attribute = {kClusterSize, 0, {}};
  attribute.cluster[0] = static_cast<unsigned>(size);
  attribute.cluster[1] = attribute.cluster[2] = 1;
  const LaunchConfig config = {{attribute.cluster[0], 1, 1},
                               {how.block[0], how.block[1], how.block[2]},
                               how.shared_bytes,
                               how.stream,
                               &attribute,
                               1};
  int clusters = 0;
  check(driver().cuOccupancyMaxActiveClusters(&clusters, function, &config),
        "cuOccupancyMaxActiveClusters");
  return clusters;
}

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// The text of stand-alone kernels: the passes of lower/pointwise.h, for the text of
// standalone/pointwise.cuh.
#pragma once

#include <string>
#include <vector>

#include "cuda/lower/pointwise.h"

namespace coda::cuda {

struct Pointwise {
  std::string text;  // without the device text it is compiled after
  std::vector<PointwisePass> passes;
  std::vector<PointwiseWork> work;
};

/// The whole program: the passes of lower_pointwise().
Pointwise generate_pointwise(const Instance& instance, const std::string& name);

/// What a fused kernel leaves to do: the passes of lower_finish().
Pointwise generate_finish(const Instance& instance, const std::string& name,
                          const std::vector<TilePartial>& partials);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// The memory that training takes: parameters with their optimizer state, and the arena of the plan
// by tensor at the step where most of it is in use.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <string>
#include <vector>

#include "execute/layout.h"
#include "nn/config.h"
#include "train/optimizer.h"

namespace coda::train {

/// A tensor of the plan; those of all layers are one.
struct TensorBytes {
  std::string name;
  int count = 0;
  size_t bytes = 0;  // of all `count`
};

/// What is alive at the peak of the arena, largest first, in the names of rewrite::labelled().
std::vector<TensorBytes> peak_tensors(const rewrite::Plan& plan, const execute::Layout& layout);

struct Footprint {
  int64_t parameters = 0;
  size_t weights = 0, masters = 0, moments = 0, gradients = 0;  // bytes
  size_t arena = 0;               // all buffers of the plan, in the places that they share
  std::vector<TensorBytes> peak;  // the tensors that need it
  size_t total() const { return weights + masters + moments + gradients + arena; }
};

/// Of a step of `tokens` tokens at a time. Workspace of kernels is left out: it is the backend's.
/// Throws Error{shape} where 64 bits do not hold a size.
Footprint footprint(const nn::ModelConfig& config, const rewrite::Plan& plan, int64_t tokens,
                    DType type, StateType state);

}  // namespace coda::train

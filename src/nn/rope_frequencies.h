// SPDX-License-Identifier: Apache-2.0
// The inverse frequencies of rotary embeddings: the pair (j, j + head_size / 2) of a head is turned
// by position * frequency[j].
#pragma once

#include <cstdint>
#include <vector>

#include "nn/config.h"

namespace coda::nn {

/// head_size / 2 frequencies, in float64. YaRN's attention factor is not in them: cos and sin are
/// multiplied by rope.attention_factor.
std::vector<double> rope_frequencies(const Rope& rope, int64_t head_size);

}  // namespace coda::nn

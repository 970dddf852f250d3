// SPDX-License-Identifier: Apache-2.0
// The next token from one row of logits.
#pragma once

#include <cstdint>
#include <span>

#include "train/random.h"

namespace coda::train {

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: greedy, the most probable token
  double top_p = 1;        // only the most probable tokens that make up this much together
};

/// Refuses a temperature below 0 or not finite and a top_p that is not above 0 and at most 1:
/// before the first token is made.
void check(const SamplingOptions& options);

/// The same token for the same logits, options and state of `random`, of which it takes one number;
/// greedy takes none. Of equal logits the one of the lowest index is the more probable. A logit of
/// minus infinity is a token that is never drawn. Refuses an empty row, NaN, plus infinity, and a
/// row of minus infinity alone; check()s the options.
int64_t sample(std::span<const float> logits, const SamplingOptions& options, Random& random);

}  // namespace coda::train

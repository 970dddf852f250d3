// SPDX-License-Identifier: Apache-2.0
// What coda train tells about its plan before the first step, on stderr.
#pragma once

#include "train/trainer.h"

namespace coda::tool {

/// Every program that a step of `tokens` tokens runs, how often, and the bytes that it moves
/// between memory and processor; then what the same model's unfused plan moves.
void print_programs(const train::Trainer& trainer, const train::TrainerOptions& options,
                    int64_t tokens);

/// The arena of the plan, by the ten largest tensors at its peak.
void print_memory(const train::Trainer& trainer, int64_t tokens);

}  // namespace coda::tool

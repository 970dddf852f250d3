// SPDX-License-Identifier: Apache-2.0
// The least time a step can take: that of its products at the machine's peak, or that of its bytes
// at the memory's rate, whichever is longer. What epilogues compute is not counted: vector units do
// it beside the products.
#pragma once

#include <coda/dtype.h>

#include <optional>
#include <string>
#include <string_view>

#include "rewrite/cost.h"

namespace coda::rewrite {

struct Machine {
  std::string name;
  double products = 0;   // FLOP a second, in matrix products of T
  double bandwidth = 0;  // bytes a second, read and written together
  double memory = 0;     // bytes
};

/// "H100" (the SXM board) or "H200" by their data sheets, for T = `type`: dense tensor cores, but
/// the float32 units for f32. Nothing for other names.
std::optional<Machine> known_machine(std::string_view name, DType type);

/// Of a step for `tokens` tokens, whatever attention does left out.
double bytes_read(const StepCost& step, int64_t tokens);
double bytes_written(const StepCost& step, int64_t tokens);
double product_flops(const StepCost& step, int64_t tokens);
double seconds(const StepCost& step, int64_t tokens, const Machine& machine);

}  // namespace coda::rewrite

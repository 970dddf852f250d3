// SPDX-License-Identifier: Apache-2.0
// Names for what a plan moves and does: for reports.
//
// A plan's buffers have the names of the graph's inputs, outputs and named values; what rewriting
// made has a number alone. Reports call it after the weights that it meets: "gate|up.in" is what is
// multiplied with them, "gate|up.out" what comes of that, "gate|up.row" a number per token beside
// it, "d_gate|up.out" a gradient. What meets none is "row1" or "value1", counted through. A weight
// goes by the part of its name that tells it from the others of its layer, without "_proj".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rewrite/plan.h"

namespace coda::rewrite {

/// "gate" for "model.layers.3.mlp.gate_proj.weight"; its gradient's name gives "d_gate".
std::string short_name(std::string_view parameter);

/// The plan with a name for every buffer that has a number. Names need not differ: layers have the
/// same, and so has a value that the backward computes again.
Plan labelled(Plan plan);

/// What one step does, in the names of its buffers (parameters by their short names).
struct Description {
  std::string products;              // "y0 * o", "d_down.out * down^T"; empty: none
  std::string work;                  // operations of the program, each once: "+ * mean"
  std::vector<std::string> inputs;   // that the program loads
  std::vector<std::string> outputs;  // that it stores
};
Description describe(const Plan& plan, const Step& step);

}  // namespace coda::rewrite

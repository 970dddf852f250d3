// SPDX-License-Identifier: Apache-2.0
// Which values of a program or graph are proportional to one of its values.
#pragma once

#include <set>

#include "ir/program.h"

namespace coda::autodiff {

struct Linear {
  ir::ValueId source = -1;
  std::set<ir::ValueId> nodes;     // proportional to it, itself included
  std::set<ir::ValueId> frontier;  // those that an output or a value not proportional to it reads
};

Linear linear_in(const ir::Program& program, ir::ValueId source);

}  // namespace coda::autodiff

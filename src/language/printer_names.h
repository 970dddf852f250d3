// SPDX-License-Identifier: Apache-2.0
// Decides which nodes of a program become statements, and what everything is called.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace coda::language {

/// A program ready to be written: a copy in which every name can be printed.
struct Layout {
  ir::Program
      program;  // names[i]: of inputs and of all statements; empty: written where it is used
  std::vector<ir::ValueId> pair;  // the other half of a split or moments; -1 where there is none
};

Layout lay_out(const ir::Program& program);

}  // namespace coda::language

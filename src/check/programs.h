// SPDX-License-Identifier: Apache-2.0
// The programs that a backend is held to: each as it is written, its derived backward, and that
// backward on the epilogue of the product that makes an upstream gradient.
#pragma once

#include <string>
#include <vector>

#include "call/call.h"

namespace coda::check {

struct NamedProgram {
  std::string name;  // "rope", "rope.bwd", "rope.bwd(d_qkv)"
  ir::Program program;
};

/// `program`, and what differentiates from it.
std::vector<NamedProgram> with_derivatives(const ir::Program& program);

/// The same for every program of the library, in its files' order.
std::vector<NamedProgram> all_programs();

/// An instance with sizes as models have them: heads of 64, two of them.
Instance instance_of(const ir::Program& program, DType type);

}  // namespace coda::check

// SPDX-License-Identifier: Apache-2.0
// The reverse walk: from a forward program to its adjoint, in which forward values stand as
// placeholders. Which of them are loaded and which recomputed is decided afterwards (save.h), when
// it is known which are needed at all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "autodiff/differentiate.h"
#include "ir/builder.h"

namespace coda::autodiff {

struct Gradient {
  int input;  // of the forward program
  ir::Output output;
};

struct Reverse {
  ir::Program forward;  // the given program with the nodes that derivatives refer to (argmax, mean)
  ir::Program adjoint;  // inputs: d_OUTPUT, and placeholders
  std::map<int, ir::ValueId> placeholders;  // input index of `adjoint` -> forward value
};

/// Walks `program` (already free of dead code) backwards.
Reverse reverse(const ir::Program& program, const Options& options);

}  // namespace coda::autodiff

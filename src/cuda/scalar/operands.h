// SPDX-License-Identifier: Apache-2.0
// What the expression of a node reads.
#pragma once

#include <vector>

#include "ir/program.h"

namespace coda::cuda {

/// The product of an integer and a real whose sine or cosine `id` is, and which is kept as two
/// floats; null for any other node.
const ir::Elementwise* angle_product(const ir::Program& program, ir::ValueId id);

/// The values that the expression of a node reads: its operands, or for an angle_product() the
/// integer and the real that are multiplied.
std::vector<ir::ValueId> expression_operands(const ir::Program& program, ir::ValueId id);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/scalar/operands.h"

namespace coda::cuda {

using ir::Number;

const ir::Elementwise* angle_product(const ir::Program& program, ir::ValueId id) {
  const auto* turn = std::get_if<ir::Elementwise>(&program.nodes[id]);
  if (!turn || (turn->op != ir::Op::sin && turn->op != ir::Op::cos)) return nullptr;
  const auto* product = std::get_if<ir::Elementwise>(&program.nodes[turn->args[0]]);
  if (!product || product->op != ir::Op::mul) return nullptr;
  const bool first = program.info[product->args[0]].number == Number::real;
  const bool second = program.info[product->args[1]].number == Number::real;
  return first != second ? product : nullptr;
}

std::vector<ir::ValueId> expression_operands(const ir::Program& program, ir::ValueId id) {
  const ir::Elementwise* product = angle_product(program, id);
  if (!product) return ir::operands(program.nodes[id]);
  const bool first = program.info[product->args[0]].number != Number::real;
  return {product->args[first ? 0 : 1], product->args[first ? 1 : 0]};
}

}  // namespace coda::cuda

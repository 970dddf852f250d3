// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>
#include <coda/value.h>

#include <algorithm>
#include <string>

#include "ir/builder.h"

namespace coda {

Value apply(std::string_view name, std::initializer_list<Value> operands) {
  const auto op = ir::op_from_name(name);
  if (!op || ir::info(*op).arity != static_cast<int>(operands.size()))
    throw Error(ErrorKind::program, std::string(name), "an elementwise operation of that arity",
                std::to_string(operands.size()) + " operands");
  ir::Builder* builder = nullptr;
  for (const Value& operand : operands)
    if (!operand.is_number()) builder = operand.builder();
  if (builder == nullptr)
    throw Error(ErrorKind::program, std::string(name), "an operand that is a value of a program",
                "numbers alone", "compute constants in C++");
  std::array<Value, 3> args;
  std::copy(operands.begin(), operands.end(), args.begin());
  return builder->elementwise(*op, args);
}

}  // namespace coda

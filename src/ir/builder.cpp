// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <coda/error.h>

namespace coda::ir {

Builder::Builder(std::string_view name) { program_.name = name; }

int Builder::size_parameter(std::string_view name) {
  program_.symbols.emplace_back(name);
  return static_cast<int>(program_.symbols.size()) - 1;
}

Value Builder::input(Input input) {
  check_input(input);
  if (input.kind == Input::Kind::accumulator)
    input.dims = {true, {Columns::Kind::all, symbol_size(kSymbolN), Size{}}};
  program_.inputs.push_back(std::move(input));
  const int index = static_cast<int>(program_.inputs.size()) - 1;
  const Value value = node(InputValue{index});
  name(value, program_.inputs[index].name);
  return value;
}

Value Builder::node(Node node) {
  ValueInfo info = infer(program_, node);
  program_.nodes.push_back(std::move(node));
  program_.info.push_back(std::move(info));
  program_.names.emplace_back();
  return {this, static_cast<int>(program_.nodes.size()) - 1};
}

Value Builder::elementwise(Op op, std::array<Value, 3> args) {
  Elementwise result{op, {-1, -1, -1}};
  for (int i = 0; i < info(op).arity; ++i) result.args[i] = id(args[i]);
  return node(result);
}

ValueId Builder::id(Value value) {
  if (value.is_number())
    return (value.is_integral() ? integer(value.integer()) : real(value.real())).id();
  if (value.builder() != this)
    throw Error(ErrorKind::program, "program '" + program_.name + "'", "values of one builder",
                "a value of another builder", "build each program with its own builder");
  return value.id();
}

void Builder::name(Value value, std::string_view name) {
  std::string& slot = program_.names[id(value)];
  if (slot.empty()) slot = name;
}

void Builder::output(Output output) {
  check_output(program_, output);
  program_.outputs.push_back(std::move(output));
}

Program Builder::finish() {
  verify(program_);
  return program_;
}

}  // namespace coda::ir

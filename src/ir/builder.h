// SPDX-License-Identifier: Apache-2.0
// Builds programs node by node. The parser, the public ProgramBuilder and every pass go through
// here, so infer() has seen each node before anyone can use its value.
#pragma once

#include <coda/value.h>

#include <string>
#include <string_view>

#include "ir/program.h"

namespace coda::ir {

class Builder {
 public:
  explicit Builder(std::string_view name);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  void make_graph() { program_.graph = true; }
  int size_parameter(std::string_view name);  // declares it; returns its symbol
  Value input(Input input);
  Value node(Node node);
  Value real(double value) { return node(RealConstant{value}); }
  Value integer(int64_t value) { return node(IntegerConstant{value}); }
  Value elementwise(Op op, std::array<Value, 3> args);
  Value reduce(ReduceOp op, Dims kept, Value arg) {
    return node(Reduce{op, std::move(kept), id(arg)});
  }

  /// The node of a value; a bare number becomes a constant here.
  ValueId id(Value value);

  void name(Value value, std::string_view name);  // the first name given to a node stays
  void output(Output output);

  const Program& program() const { return program_; }
  Program finish();  // verifies

 private:
  Program program_;
};

}  // namespace coda::ir

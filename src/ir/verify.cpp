// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include <set>

#include "ir/program.h"

namespace coda::ir {
namespace {

[[noreturn]] void refuse(std::string_view where, std::string_view expected, std::string_view got,
                         std::string_view fix = {}) {
  throw Error(ErrorKind::program, where, expected, got, fix);
}

}  // namespace

void check_input(const Input& input) {
  const std::string where = "input '" + input.name + "'";
  if (input.kind == Input::Kind::accumulator) return;
  if (!input.type.generic && input.type.dtype == DType::f64)
    refuse(where, "a storage type other than f64", "f64", "values are float32: use f32");
  if (input.kind == Input::Kind::scalar &&
      (input.type.generic || (input.type.dtype != DType::f32 && input.type.dtype != DType::i32 &&
                              input.type.dtype != DType::i64)))
    refuse(where, "a number of type f32, i32 or i64", to_string(input.type),
           "write " + input.name + ": f32, or " + input.name + ": " + to_string(input.type) +
               "[] for a number in memory");
}

void verify(const Program& program) {
  const size_t count = program.nodes.size();
  if (program.info.size() != count || program.names.size() != count)
    throw Error(ErrorKind::internal, "verify", "info and a name slot for each node",
                "other counts");
  std::set<std::string> names;
  for (const Input& input : program.inputs) {
    check_input(input);
    if (!names.insert(input.name).second)
      refuse("input '" + input.name + "'", "each name once", "a second one", "rename one");
  }
  int accumulators = 0;
  for (const Input& input : program.inputs) accumulators += input.kind == Input::Kind::accumulator;
  if (accumulators > 2)
    refuse("program '" + program.name + "'", "at most two accumulators",
           std::to_string(accumulators), "split the program");
  Program prefix = program;  // infer() may look only at what comes before
  prefix.nodes.clear(), prefix.info.clear();
  for (size_t i = 0; i < count; ++i) {
    if (!(infer(prefix, program.nodes[i]) == program.info[i]))
      throw Error(ErrorKind::internal, "verify",
                  "stored info of node %" + std::to_string(i) + " as inferred",
                  "other info\n" + dump(program));
    prefix.nodes.push_back(program.nodes[i]);
    prefix.info.push_back(program.info[i]);
  }
  if (program.outputs.empty())
    refuse("program '" + program.name + "'", "at least one output", "none", "name one after ->");
  for (const Output& output : program.outputs) {
    check_output(program, output);
    if (!names.insert(output.name).second)
      refuse("output '" + output.name + "'", "a name that no input or other output has",
             "a second one", "rename one");
  }
}

}  // namespace coda::ir

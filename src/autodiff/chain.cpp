// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include "autodiff/differentiate.h"

namespace coda::autodiff {
namespace {

using ir::Op;
using ir::Program;

/// Whether `program` makes its output `name` by an operation whose result is never 0.
bool never_zero(const Program& program, const std::string& name) {
  for (const ir::Output& output : program.outputs) {
    const auto* node = std::get_if<ir::Elementwise>(&program.nodes[output.value]);
    if (output.name == name && node)
      return node->op == Op::rsqrt || node->op == Op::exp || node->op == Op::sigmoid;
  }
  return false;
}

}  // namespace

ChainResult differentiate_chain(const Program& first, const Program& second,
                                const Options& of_second) {
  Options options = of_second;
  bool linked = false;
  for (const ir::Input& input : second.inputs)
    for (const ir::Output& output : first.outputs)
      if (input.name == output.name) {
        linked = true;
        if (never_zero(first, input.name)) options.nonzero.push_back(input.name);
      }
  if (!linked)
    throw Error(ErrorKind::program, "chain '" + first.name + "' -> '" + second.name + "'",
                "an input of the second that is an output of the first", "none of one name",
                "give both the same name");
  return {differentiate(first, {}), differentiate(second, options)};
}

}  // namespace coda::autodiff

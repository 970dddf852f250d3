// SPDX-License-Identifier: Apache-2.0
// The public functions on Program, over the passes on ir::Program.
#include <coda/program.h>

#include "autodiff/differentiate.h"

namespace coda {
namespace {

std::vector<std::string> strings(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

Program wrap(ir::Program program) {
  return Program(std::make_shared<const ir::Program>(std::move(program)));
}

Derivative wrap(autodiff::Result result) {
  return {wrap(std::move(result.forward)), wrap(std::move(result.backward))};
}

}  // namespace

Derivative differentiate(const Program& program, const DifferentiateOptions& options) {
  return wrap(autodiff::differentiate(
      program.ir(), {strings(options.wrt), strings(options.of), strings(options.nonzero)}));
}

ChainDerivative differentiate_chain(const Program& first, const Program& second,
                                    std::span<const std::string_view> of) {
  auto chain = autodiff::differentiate_chain(first.ir(), second.ir(), {{}, strings(of), {}});
  return {wrap(std::move(chain.first)), wrap(std::move(chain.second))};
}

Program into_accumulator(const Program& program, std::string_view input) {
  return wrap(autodiff::into_accumulator(program.ir(), input));
}

}  // namespace coda

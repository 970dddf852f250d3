// SPDX-License-Identifier: Apache-2.0
// Programs of the tests of lowering.
#pragma once

#include <memory>
#include <string>

#include "call/call.h"
#include "language/parser.h"

namespace coda::cuda::test {

/// An instance, with T = bf16, of the one program of a text without the version.
inline Instance parse(const std::string& text) {
  auto programs = language::parse_file("coda 1\n" + text, "p.coda");
  return {std::make_shared<const ir::Program>(std::move(programs.at(0))), DType::bf16, {0, 0}};
}

}  // namespace coda::cuda::test

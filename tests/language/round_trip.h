// SPDX-License-Identifier: Apache-2.0
// The promise of the printer as one check.
#pragma once

#include <gtest/gtest.h>

#include "canonical.h"
#include "language/parser.h"
#include "language/printer.h"

namespace coda::language {

/// `text` parsed; it holds one program.
inline ir::Program parse_one(const std::string& text) {
  std::vector<ir::Program> programs = parse_file(text, "test.coda");
  EXPECT_EQ(programs.size(), 1u);
  return programs.at(0);
}

/// Printed, parsed and printed again: the same program, the same text. Returns the text.
inline std::string expect_round_trip(const ir::Program& program) {
  const std::string text = print(program);
  const ir::Program again = parse_one(text);
  EXPECT_EQ(canonical(again), canonical(program)) << text;
  EXPECT_EQ(print(again), text);
  return text;
}

}  // namespace coda::language

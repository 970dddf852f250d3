// SPDX-License-Identifier: Apache-2.0
// Arbitrary text either parses or is refused with coda::Error; what parses comes back from its
// printed form as the same program, and the printed form from itself.
#include <coda/error.h>

#include <cstdio>
#include <cstdlib>

#include "language/canonical.h"
#include "language/parser.h"
#include "language/printer.h"

namespace {

void expect_equal(const std::string& a, const std::string& b, const char* what) {
  if (a == b) return;
  std::fprintf(stderr, "%s\n--- before\n%s\n--- after\n%s\n", what, a.c_str(), b.c_str());
  std::abort();
}

void round_trip(const coda::ir::Program& program) {
  const std::string text = coda::language::print(program);
  const auto again = coda::language::parse_file(text, "printed");
  expect_equal(coda::language::canonical(program), coda::language::canonical(again.at(0)),
               "another program");
  expect_equal(text, coda::language::print(again.at(0)), "another text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<coda::ir::Program> programs;
  try {
    programs = coda::language::parse_file({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const coda::Error& error) {
    if (error.kind() == coda::ErrorKind::internal) std::abort();
    return 0;
  }
  for (const coda::ir::Program& program : programs) round_trip(program);
  return 0;
}

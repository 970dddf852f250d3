// SPDX-License-Identifier: Apache-2.0
// Derived programs use values many times, drop halves of pairs and store inputs unchanged: they
// print too.
#include <coda/error.h>
#include <coda/program.h>

#include "language/library.h"
#include "round_trip.h"

namespace coda::language {
namespace {

TEST(Derived, forward_and_backward_of_every_library_program_come_back_from_their_text) {
  int derived = 0;
  for (const LibraryFile& file : library_files())
    for (ir::Program& program : parse_file(file.text, file.name)) {
      SCOPED_TRACE(program.name);
      try {
        const Derivative derivative =
            differentiate(Program(std::make_shared<const ir::Program>(std::move(program))));
        expect_round_trip(derivative.forward.ir());
        expect_round_trip(derivative.backward.ir());
        ++derived;
      } catch (const Error& error) {  // argmax and integer outputs have no derivative
        EXPECT_EQ(error.kind(), ErrorKind::program) << error.what();
      }
    }
  EXPECT_GE(derived, 30);
}

TEST(Derived, a_gradient_that_is_the_upstream_gradient_prints_as_an_alias) {
  const Program program =
      Program::parse("coda 1\nprogram p(a: acc, x: T[m, n]) -> y: T[m, n] { y = a + x }");
  const std::string text = expect_round_trip(differentiate(program).backward.ir());
  EXPECT_NE(text.find("  d_a = d_y\n  d_x = d_y\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace coda::language

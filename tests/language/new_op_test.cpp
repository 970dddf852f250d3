// SPDX-License-Identifier: Apache-2.0
// A new elementwise operation is one row of elementwise.def. This test is built, with the sources
// of the IR, the language and autodiff, against a copy of the table that has one row more: atan.
#include <coda/program.h>

#include "language/words.h"
#include "round_trip.h"

namespace coda::language {
namespace {

constexpr char kText[] =
    "coda 1\n\nprogram p(a: acc, b: T[n]) -> y: T[m, n] {\n  y = atan(a * b) + 1\n}\n";

TEST(NewOp, one_row_makes_it_a_word_of_the_language) {
  EXPECT_EQ(expect_round_trip(parse_one(kText)), kText);
  EXPECT_TRUE(is_reserved("atan"));
}

TEST(NewOp, one_row_makes_it_a_function_of_values) {
  ProgramBuilder p("p");
  const Value a = p.input("a: acc"), b = p.input("b: T[n]");
  p.output("y: T[m, n]", atan(a * b) + 1);
  EXPECT_STREQ(p.build().text(), kText);
}

TEST(NewOp, one_row_differentiates_it) {
  const std::string backward = differentiate(Program::parse(kText)).backward.text();
  EXPECT_NE(backward.find(" / "), std::string::npos) << backward;
  EXPECT_EQ(backward.find("atan"), std::string::npos) << backward;
}

}  // namespace
}  // namespace coda::language

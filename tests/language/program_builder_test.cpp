// SPDX-License-Identifier: Apache-2.0
// Programs built in C++ are those that the text gives.
#include <coda/error.h>
#include <coda/program.h>

#include "round_trip.h"

namespace coda::language {
namespace {

TEST(ProgramBuilder, builds_what_the_text_says) {
  ProgramBuilder p("residual_rms");
  const Value a = p.input("a: acc"), r = p.input("residual: T[m, n]"), eps = p.input("eps: f32");
  const Value x = a + r;
  p.output("x: T[m, n]", x);
  p.output("rstd: f32[m]", rsqrt(p.reduce("mean[m]", x * x) + eps));
  const Program built = p.build();
  const Program parsed = Program::parse(
      "coda 1\nprogram residual_rms(a: acc, residual: T[m, n], eps: f32) -> x: T[m, n], rstd: "
      "f32[m] {\n"
      "  x = a + residual\n  rstd = rsqrt(mean[m](x * x) + eps)\n}\n");
  EXPECT_STREQ(built.text(), parsed.text());
  EXPECT_EQ(canonical(built.ir()), canonical(parsed.ir()));
}

TEST(ProgramBuilder, knows_every_form_of_the_language) {
  ProgramBuilder p("all");
  const Value dh = p.size("dh"), nq = p.size("nq");
  const Value a = p.input("a: acc"), pos = p.input("pos: i32[m]"),
              f = p.input("f: f32[n/2 % dh/2]");
  const auto [x, y] = p.split(a, "dh/2");
  const Value t = pos * f;
  p.name(t, "angle");
  const Value turned = p.join(x * cos(t) - y * sin(t), 0, "dh/2");
  p.output("q: bf16[m, n]",
           where(p.column_index() < nq * dh, turned, p.round(p.swap(a, "dh/2", "2*dh"), "T")));
  const auto [mean, variance] = p.moments("[m]", a + p.rows() - p.columns() * p.row_index());
  p.output("mu: f32[m]", mean);
  p.output("v: f32[m]", variance);
  p.output("s: f32[n:nq]", p.reduce("sum[n:nq]", a));
  const Program built = p.build();
  expect_round_trip(built.ir());
  EXPECT_STREQ(Program::parse(built.text()).text(), built.text());
  EXPECT_NE(std::string(built.text()).find("angle = pos * f"), std::string::npos);
}

TEST(ProgramBuilder, refuses_bad_names_and_fragments) {
  EXPECT_THROW(ProgramBuilder("sum"), Error);
  EXPECT_THROW(ProgramBuilder("two words"), Error);
  ProgramBuilder p("p");
  const Value a = p.input("a: acc");
  EXPECT_THROW(p.input("a: T[n]"), Error);
  EXPECT_THROW(p.input("b: T[n] x"), Error);
  EXPECT_THROW(p.input("b: T[k]"), Error);
  EXPECT_THROW(p.input("exp: T[n]"), Error);
  EXPECT_THROW(p.size("a"), Error);
  EXPECT_THROW(p.reduce("moments[m]", a), Error);
  EXPECT_THROW(p.reduce("median[m]", a), Error);
  EXPECT_THROW(p.split(a, "dh"), Error);
  EXPECT_THROW(p.name(a * 2, "a"), Error);
  EXPECT_THROW(p.output("y: f32", a), Error);
  EXPECT_THROW(p.output("y: f32[n]", a), Error);
  EXPECT_THROW(p.build(), Error) << "no outputs";
  try {
    p.round(a, "fp8");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.where(), "'fp8':1:1");
  }
}

}  // namespace
}  // namespace coda::language

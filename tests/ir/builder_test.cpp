// SPDX-License-Identifier: Apache-2.0
// Builds programs in C++ and checks what infer() says of their values, and what it refuses.
#include "ir/builder.h"

#include <coda/error.h>
#include <gtest/gtest.h>

namespace coda::ir {
namespace {

const Columns kAll{Columns::Kind::all, symbol_size(kSymbolN), Size{}};

struct ResidualRms {
  Builder builder{"residual_rms"};
  Value a = builder.input({"a", Input::Kind::accumulator, {}, {}});
  Value residual = builder.input({"residual", Input::Kind::tensor, {true}, {true, kAll}});
  Value w = builder.input({"w", Input::Kind::tensor, {true}, {false, kAll}});
  Value eps = builder.input({"eps", Input::Kind::scalar, {}, {}});
  Value x = a + residual;
  Value rstd = rsqrt(builder.reduce(ReduceOp::mean, {true, {}}, x* x) + eps);
};

TEST(Builder, residual_rms_has_tile_and_complete_values) {
  ResidualRms p;
  p.builder.output({"x", {true}, {true, kAll}, p.x.id()});
  p.builder.output({"rstd", {}, {true, {}}, p.rstd.id()});
  const Program program = p.builder.finish();
  EXPECT_EQ(program.info[p.x.id()].stage, Stage::tile);
  EXPECT_EQ(program.info[p.rstd.id()].stage, Stage::complete);
  EXPECT_EQ(to_string(program.info[p.rstd.id()].dims, program), "[m]");
  EXPECT_NE(dump(program).find("mean[m]"), std::string::npos);
}

TEST(Builder, a_complete_value_never_meets_the_tile) {
  ResidualRms p;
  try {
    (void)(p.x * p.rstd);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::program);
    EXPECT_NE(std::string(error.fix()).find("split the program here"), std::string::npos);
  }
}

TEST(Builder, integers_stay_integers_and_division_gives_floats) {
  ResidualRms p;
  const Value n = p.builder.node(Index{false});
  EXPECT_EQ(p.builder.program().info[(n * 2 + 1).id()].number, Number::integer);
  EXPECT_EQ(p.builder.program().info[(n / 2).id()].number, Number::real);
  EXPECT_EQ(p.builder.program().info[(n < 3).id()].number, Number::mask);
  EXPECT_THROW(p.x % n, Error);
}

TEST(Size, normal_form_and_exact_evaluation) {
  const Size dh = symbol_size(2), half = dh / constant_size(2);
  EXPECT_EQ(half * constant_size(2), dh);
  const std::vector<int64_t> values{1024, 7, 64}, odd{1024, 7, 63};
  EXPECT_EQ(evaluate(half, values, "dh/2"), 32);
  EXPECT_THROW(evaluate(half, odd, "dh/2"), Error);
  const std::vector<int64_t> huge{int64_t{1} << 62, 1, 4};
  EXPECT_THROW(evaluate(symbol_size(0) * dh, huge, "n*dh"), Error);
}

}  // namespace
}  // namespace coda::ir

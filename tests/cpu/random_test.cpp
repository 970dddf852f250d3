// SPDX-License-Identifier: Apache-2.0
// Random programs on random data in random layouts, fused and unfused, against the float64
// reference.
#include <gtest/gtest.h>

#include "check/check.h"
#include "check/generate.h"
#include "ir/program.h"

namespace coda {
namespace {

class RandomProgram : public testing::TestWithParam<int> {};

TEST_P(RandomProgram, agrees_with_the_reference) {
  constexpr check::Case kCases[] = {{1, 64, 8, DType::f32},     {33, 128, 40, DType::bf16},
                                    {130, 576, 24, DType::f32}, {7, 64, 0, DType::f16},
                                    {0, 64, 16, DType::bf16},   {129, 320, 64, DType::bf16}};
  for (uint64_t seed = 40 * static_cast<uint64_t>(GetParam()) + 1;
       seed <= 40 * static_cast<uint64_t>(GetParam()) + 40; ++seed) {
    const Program program(std::make_shared<const ir::Program>(check::random_program(seed)));
    check::Case c = kCases[seed % std::size(kCases)];
    c.seed = seed;
    for (const check::Row& row : check::check_case(program, c, {.threads = 2})) {
      if (row.what == "gradient") continue;
      EXPECT_TRUE(row.ok) << "program seed " << seed << ", " << check::to_string(c) << ", "
                          << row.what << ": " << row.message << "\n"
                          << program.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgram, testing::Range(0, 5));

}  // namespace
}  // namespace coda

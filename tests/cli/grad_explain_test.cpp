// SPDX-License-Identifier: Apache-2.0
// What grad and explain print, by numbers that can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace coda::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(grad, what_it_prints_is_a_file_that_can_be_differentiated_and_checked_again) {
  const Folder folder;
  const Outcome backward = run_coda("grad residual_rms");
  ASSERT_EQ(backward.status, 0) << backward.err;
  const std::string file = folder.file("backward.coda", backward.out);
  EXPECT_EQ(run_coda("grad " + file).status, 0);
  EXPECT_EQ(run_coda("explain -m 8 -n 8 -k 8 " + file).status, 0);
}

TEST(grad, wrt_and_of_choose_gradients_and_into_makes_an_accumulator) {
  const std::string all = run_coda("grad rmsnorm_swiglu").out;
  EXPECT_THAT(all, HasSubstr("d_up"));
  const Outcome one = run_coda("grad rmsnorm_swiglu --wrt gate --of y --into d_y");
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("d_y: acc"));
  EXPECT_THAT(one.out, HasSubstr("d_gate: "));
  EXPECT_THAT(one.out, Not(HasSubstr("d_up")));
  EXPECT_THAT(one.out, Not(HasSubstr("d_u:")));
  for (const char* wrong : {"--wrt gaet", "--of z", "--into d_z"}) {
    const Outcome run = run_coda(std::string("grad rmsnorm_swiglu ") + wrong);
    EXPECT_EQ(run.status, 2) << wrong;
    EXPECT_THAT(run.err, HasSubstr("expected")) << wrong;
  }
}

TEST(grad, json_says_where_each_saved_tensor_comes_from) {
  const nlohmann::json json = json_of(run_coda("grad residual_rms --json"));
  std::map<std::string, std::string> origin;
  for (const auto& saved : json["programs"][0]["saved"]) origin[saved["name"]] = saved["origin"];
  EXPECT_EQ(origin["x"], "output");
  EXPECT_EQ(origin["rstd"], "output");
  EXPECT_EQ(origin["w"], "input");
}

TEST(grad, a_program_without_a_gradient_says_so) {
  const Folder folder;
  const Outcome run = run_coda("grad " + folder.file("count.coda", R"(coda 1
program count(label: i64[m]) -> y: i64[] {
  y = sum[](label)
}
)"));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("error: "));
}

TEST(explain, counts_the_bytes_and_operations_of_a_small_program) {
  const Folder folder;
  const std::string file = folder.file("p.coda", R"(coda 1
program p(a: acc, r: T[m, n], w: f32[n], eps: f32) -> x: T[m, n], s: f32[m] {
  x = a + r
  s = sum[m](x * w) + eps
}
)");
  const nlohmann::json json = json_of(run_coda("explain --json -m 10 -n 6 -k 4 " + file));
  const nlohmann::json& p = json["programs"][0];
  std::map<std::string, double> bytes;
  for (const char* side : {"loads", "stores"})
    for (const auto& tensor : p[side]) bytes[tensor["name"]] = tensor["bytes"];
  const std::map<std::string, double> expected{{"A", 10 * 4 * 2}, {"B of a", 6 * 4 * 2},
                                               {"r", 60 * 2},     {"w", 6 * 4},
                                               {"x", 60 * 2},     {"s", 10 * 4}};
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(p["product_flops"], 2 * 10 * 6 * 4);
  EXPECT_EQ(p["epilogue_flops"], 60 + 60 + 60 + 10);  // a + r, x * w, the sum's terms, + eps
  EXPECT_EQ(p["roundings"], nlohmann::json({"x stored as bf16"}));
  EXPECT_EQ(p["unfused_roundings"], 2);

  const nlohmann::json& unfused = p["unfused"];
  ASSERT_EQ(unfused.size(), 3U) << unfused;  // the product, x, the sum
  EXPECT_EQ(unfused[0]["bytes_read"], (10 + 6) * 4 * 2);
  EXPECT_EQ(unfused[0]["bytes_written"], 60 * 2);
  EXPECT_EQ(unfused[1]["bytes_read"], 60 * 2 + 60 * 2);  // a and r
  EXPECT_EQ(unfused[1]["bytes_written"], 60 * 2);
  EXPECT_EQ(unfused[2]["bytes_read"], 60 * 2 + 6 * 4);  // x and w
  EXPECT_EQ(unfused[2]["bytes_written"], 10 * 4);
}

TEST(explain, float32_rounds_nowhere_and_moves_twice_the_bytes) {
  const auto total = [](const nlohmann::json& tensors, const char* name) {
    for (const auto& tensor : tensors)
      if (tensor["name"] == name) return tensor["bytes"].get<double>();
    return -1.0;
  };
  const nlohmann::json narrow =
      json_of(run_coda("explain residual_rms --json -m 7 -n 5 -k 3"))["programs"][0];
  const nlohmann::json wide =
      json_of(run_coda("explain residual_rms --json --type f32 -m 7 -n 5 -k 3"))["programs"][0];
  EXPECT_EQ(wide["roundings"].size(), 0U);
  EXPECT_EQ(wide["unfused_roundings"], 0);
  EXPECT_EQ(total(wide["stores"], "x"), 2 * total(narrow["stores"], "x"));
  EXPECT_EQ(total(wide["stores"], "rstd"), total(narrow["stores"], "rstd"));
}

TEST(explain, group_reductions_are_kernels_before_the_elementwise_work_that_uses_them) {
  const nlohmann::json p = json_of(
      run_coda("explain qk_norm_rope --json -m 4 -n 64 -k 8 --size dh=8,nq=4,nk=2"))["programs"][0];
  ASSERT_EQ(p["unfused"].size(), 3U) << p["unfused"];
  EXPECT_THAT(p["unfused"][1]["work"].get<std::string>(), HasSubstr("mean"));
  EXPECT_EQ(p["unfused"][1]["bytes_written"], 4 * 8 * 4);
  EXPECT_THAT(p["unfused"][2]["work"].get<std::string>(), HasSubstr("qkv"));
}

}  // namespace
}  // namespace coda::test

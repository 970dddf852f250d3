// SPDX-License-Identifier: Apache-2.0
// What check and bench report, and how commands end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "command.h"

namespace coda::test {
namespace {

using ::testing::HasSubstr;

TEST(check, reports_every_program_that_was_named_as_text_and_as_json) {
  const Outcome text = run_coda("check linear bias_relu --case 9x12x5:bf16 --seed 7");
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  for (const char* word : {"linear", "bias_relu", "0 failed", "seed 7"})
    EXPECT_THAT(text.out, HasSubstr(word));
  const nlohmann::json json =
      json_of(run_coda("check linear bias_relu --json --case 9x12x5:bf16 --seed 7"));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["seed"], 7);
  ASSERT_EQ(json["programs"].size(), 2U);
  for (const auto& program : json["programs"]) {
    EXPECT_EQ(program["failures"].size(), 0U) << program;
    EXPECT_GE(program["cases"], 2) << program;  // fused and unfused
    EXPECT_GT(program["worst_error_over_tolerance"], 0) << program;
    EXPECT_LE(program["worst_error_over_tolerance"], 1) << program;
  }
}

TEST(check, a_type_and_a_case_narrow_what_runs) {
  const auto cases = [](const std::string& flags) {
    const nlohmann::json json = json_of(run_coda("check linear --json --seconds 100 " + flags));
    return json["programs"][0]["cases"].get<int>();
  };
  EXPECT_GT(cases(""), cases("--type f16"));
  EXPECT_GT(cases("--type f16"), cases("--case 64x64x64:f16"));
}

TEST(check, list_names_programs_that_can_be_checked) {
  const nlohmann::json json = json_of(run_coda("check --list --json"));
  ASSERT_GT(json["programs"].size(), 10U);
  const std::string name = json["programs"][3]["program"];
  EXPECT_EQ(run_coda("check --case 4x64x8:f32 " + name).status, 0) << name;
  EXPECT_THAT(run_coda("check --list").out, HasSubstr(name));
}

TEST(check, refuses_cases_that_it_cannot_read) {
  for (const char* text : {"4x4", "4x4x4:f8", "ax4x4:f32", "4x4x4x4:f32", "-1x4x4:f32"}) {
    const Outcome run = run_coda(std::string("check linear --case=") + text);
    EXPECT_EQ(run.status, 2) << text;
    EXPECT_THAT(run.err, HasSubstr("MxNxK:TYPE")) << text;
  }
}

TEST(check, a_device_that_is_not_there_ends_with_3) {
  const Outcome run = run_coda("check linear --device cuda");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("--device cpu"));
}

TEST(check, the_suite_has_programs_of_its_own_on_a_gpu) {
  const Outcome device = run_coda("check --suite");
  EXPECT_EQ(device.status, 2);
  EXPECT_THAT(device.err, HasSubstr("--device cuda"));
  const Outcome file = run_coda("check linear --suite --device cuda");
  EXPECT_EQ(file.status, 2);
  EXPECT_THAT(file.err, HasSubstr("no FILE"));
  EXPECT_NE(run_coda("check --suite --device cuda --only nothing-like-it").status, 0);
  EXPECT_EQ(run_coda("check linear --only swiglu").status, 2);
}

TEST(bench, times_the_fused_and_the_unfused_program_in_one_run) {
  const nlohmann::json json =
      json_of(run_coda("bench residual_rms --json --type f32 -m 33 -n 65 -k 40 --seconds 0.01"));
  const nlohmann::json& program = json["programs"][0];
  EXPECT_EQ(program["m"], 33);
  std::set<std::string> names;
  for (const auto& result : program["results"]) {
    names.insert(result["name"]);
    EXPECT_GT(result["median_seconds"], 0) << result;
    EXPECT_GE(result["calls"], 5) << result;
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"fused", "unfused"}));
}

TEST(bench, refuses_sizes_of_nothing) {
  for (const char* flags : {"-m 0", "-n 0", "--threads 0", "-k -1"})
    EXPECT_EQ(run_coda(std::string("bench linear ") + flags).status, 2) << flags;
}

TEST(bench, a_suite_is_for_a_gpu_and_stands_alone) {
  const Outcome on_cpu = run_coda("bench --suite kernels");
  EXPECT_EQ(on_cpu.status, 2);
  EXPECT_THAT(on_cpu.err, HasSubstr("--device cuda"));
  const Outcome with_program = run_coda("bench linear --suite generated --device cuda");
  EXPECT_EQ(with_program.status, 2);
  EXPECT_THAT(with_program.err, HasSubstr("no program beside it"));
  EXPECT_EQ(run_coda("bench --suite models --device cuda").status, 2);
  for (const char* flags : {"--rounds 0", "--candidates 0"})
    EXPECT_EQ(run_coda(std::string("bench --device cuda ") + flags).status, 2) << flags;
}

TEST(tune, refuses_what_it_cannot_tune) {
  const Outcome both = run_coda("tune linear --suite kernels");
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("no program beside it"));
  for (const char* flags : {"-m 0", "-n 0", "-k 0", "--candidates 0", "--rounds 0", "--layout TT"})
    EXPECT_EQ(run_coda(std::string("tune linear ") + flags).status, 2) << flags;
}

TEST(tune, a_device_that_is_not_there_ends_with_3) {
  const Outcome run = run_coda("tune linear");
  if (run.status == 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(run.status, 3) << run.err;
}

TEST(interrupted, a_command_ends_with_130) {
  if (std::system("command -v timeout >/dev/null") != 0) GTEST_SKIP() << "no timeout(1)";
  const Outcome run = run_coda("bench linear --seconds 300 -m 64 -n 64 -k 64",
                               "timeout --preserve-status -s INT 1");
  EXPECT_EQ(run.status, 130) << run.err;
}

}  // namespace
}  // namespace coda::test

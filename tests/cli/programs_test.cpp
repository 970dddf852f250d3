// SPDX-License-Identifier: Apache-2.0
// Programs named on the command line: files good and bad, library names, sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace coda::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTwo = R"(coda 1
program scaled(a: acc, s: f32[m]) -> y: T[m, n] {
  y = a * s
}
program square(a: acc) -> y: T[m, n] {
  y = a * a
}
)";

TEST(programs, a_file_means_all_of_its_programs_and_a_name_after_a_colon_one) {
  const Folder folder;
  const std::string file = folder.file("two.coda", kTwo);
  EXPECT_THAT(run_coda("grad " + file).out,
              AllOf(HasSubstr("program scaled_bwd("), HasSubstr("program square_bwd(")));
  EXPECT_THAT(run_coda("grad " + file + ":square").out,
              AllOf(Not(HasSubstr("scaled_bwd")), HasSubstr("program square_bwd(")));
  const Outcome wrong = run_coda("grad " + file + ":sqare");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("square"));
}

TEST(programs, a_library_name_stands_for_its_program_and_a_near_miss_gets_a_suggestion) {
  EXPECT_EQ(run_coda("grad residual_rms").status, 0);
  const Outcome wrong = run_coda("grad residual_rsm");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("residual_rms"));
}

TEST(programs, files_that_hold_no_program_are_refused_by_every_command) {
  const Folder folder;
  const std::string bad[] = {
      folder.path() + "/missing.coda",
      folder.path(),  // a folder
      folder.file("empty.coda", ""),
      folder.file("binary.coda", std::string_view("\x7f"
                                                  "ELF\0\1\2\xff\xfe",
                                                  9)),
      folder.file("newer.coda", "coda 2\nprogram p(a: acc) -> y: T[m, n] { y = a }\n"),
      folder.file("torn.coda", "coda 1\nprogram p(a: acc) -> y: T[m, n] { y = a *"),
      folder.file("no_programs.coda", "coda 1\n"),
  };
  for (const std::string& file : bad)
    for (const std::string command : {"check", "grad", "explain -m 8 -n 8"}) {
      const Outcome run = run_coda(command + " " + file);
      EXPECT_EQ(run.status, 2) << command << " " << file << "\n" << run.out << run.err;
      EXPECT_THAT(run.err, AllOf(HasSubstr("error: "), HasSubstr("expected"), HasSubstr("got")))
          << command << " " << file;
      const nlohmann::json error = json_of(run_coda(command + " --json " + file))["error"];
      EXPECT_EQ(error["exit_code"], 2) << command << " " << file;
      EXPECT_NE(error["expected"], "") << command << " " << file;
    }
}

TEST(programs, a_newer_language_is_refused_with_the_version_that_it_needs) {
  const Folder folder;
  const Outcome run = run_coda("grad " + folder.file("newer.coda", "coda 7\n"));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("7"));
}

TEST(programs, a_syntax_error_names_file_line_and_column_on_lines_of_their_own) {
  const Folder folder;
  const std::string file =
      folder.file("torn.coda", "coda 1\nprogram p(a: acc) -> y: T[m, n] {\n  y = a * )\n}\n");
  const Outcome run = run_coda("check " + file);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("error: " + file + ":3:11\n  expected  "));
  EXPECT_THAT(run.err, HasSubstr("\n  got       "));
}

TEST(programs, sizes_are_checked_before_anything_runs) {
  for (const char* arguments :
       {"explain rope -m 8 -n 64 --size dh", "explain rope -m 8 -n 64 --size dh=x",
        "explain rope -m 8 -n 64 --size dh=-8", "explain rope -m 8 -n 64 --size hd=8,rot=64",
        "explain rope -m 8 -n 64 --size dh=8", "explain rope -m 8 -n 63 -k 8 --size dh=8,rot=8",
        "explain residual_rms -m -1 -n 8 -k 8", "explain residual_rms -m 8 -n 8",
        "explain residual_rms -m 8 -n 8 -k 8 --size dh=8"}) {
    const Outcome run = run_coda(arguments);
    EXPECT_EQ(run.status, 2) << arguments << "\n" << run.out;
    EXPECT_THAT(run.err, HasSubstr("got")) << arguments;
  }
  EXPECT_EQ(run_coda("explain rope -m 8 -n 64 -k 8 --size dh=8,rot=64").status, 0);
}

}  // namespace
}  // namespace coda::test

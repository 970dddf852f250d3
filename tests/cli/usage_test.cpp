// SPDX-License-Identifier: Apache-2.0
// What the command line says to people who do not know it yet, or mistype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "command.h"

namespace coda::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(usage, alone_it_names_three_commands_to_try_and_each_of_them_works) {
  const Outcome run = run_coda("");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  int commands = 0;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  coda ")) continue;
    ++commands;
    const size_t end = line.find("    ", 2);
    const std::string arguments = line.substr(7, end == std::string::npos ? end : end - 7);
    EXPECT_EQ(run_coda(arguments).status, 0) << arguments;
  }
  EXPECT_EQ(commands, 3) << run.out;
}

TEST(usage, the_version_is_the_one_of_the_project) {
  const Outcome run = run_coda("--version");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, "coda " CODA_PROJECT_VERSION "\n");
}

TEST(usage, help_lists_the_commands_and_the_exit_codes) {
  const Outcome run = run_coda("--help");
  EXPECT_EQ(run.status, 0);
  for (const char* word : {"check", "grad", "explain", "bench", "doctor", "130 interrupted"})
    EXPECT_THAT(run.out, HasSubstr(word));
}

TEST(usage, an_unknown_command_ends_with_2_and_a_suggestion) {
  const Outcome run = run_coda("chekc residual_rms");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("'chekc' is no command"));
  EXPECT_THAT(run.err, HasSubstr("check"));
  EXPECT_EQ(run_coda("''").status, 2);
}

TEST(usage, unknown_flags_and_missing_arguments_end_with_2) {
  for (const char* arguments : {"--nonsense", "doctor --nonsense", "grad", "explain residual_rms",
                                "explain residual_rms -m x -n 1", "check residual_rms --type f8"}) {
    const Outcome run = run_coda(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_THAT(run.err, StartsWith("error: ")) << arguments;
    EXPECT_THAT(run.err, HasSubstr("fix")) << arguments;
  }
}

TEST(usage, with_json_a_wrong_command_line_is_an_object_too) {
  for (const char* arguments : {"chekc --json", "grad --json", "doctor --json --nonsense"}) {
    const Outcome run = run_coda(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_EQ(json_of(run)["error"]["exit_code"], 2) << arguments;
  }
}

TEST(usage, nothing_is_coloured_and_no_progress_shown_outside_a_terminal) {
  for (const char* arguments : {"doctor", "check residual_rms", "check no_such_program"}) {
    const Outcome run = run_coda(arguments);
    EXPECT_THAT(run.out + run.err, Not(HasSubstr("\033"))) << arguments;
    EXPECT_THAT(run.out + run.err, Not(HasSubstr("\r"))) << arguments;
  }
}

TEST(usage, no_color_and_quiet_are_respected_in_a_terminal) {
  if (std::system("command -v script >/dev/null") != 0) GTEST_SKIP() << "no script(1)";
  const auto terminal = [](const std::string& environment, const std::string& arguments) {
    const Folder folder;
    const std::string file = folder.path() + "/typescript";
    const std::string command = environment + " script -qec '" CODA_BINARY " " + arguments + "' " +
                                file + " >/dev/null </dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  };
  EXPECT_THAT(terminal("env -u NO_COLOR", "doctor"), HasSubstr("\033[3"));
  EXPECT_THAT(terminal("NO_COLOR=1", "doctor"), Not(HasSubstr("\033[3")));
  EXPECT_THAT(terminal("NO_COLOR=1", "check residual_rms"), HasSubstr("\033[K"));
  EXPECT_THAT(terminal("NO_COLOR=1", "check residual_rms --quiet"), Not(HasSubstr("\033")));
}

TEST(usage, doctor_reports_each_subject_with_a_fix_where_it_is_missing) {
  const Outcome run =
      run_coda("doctor --json", "CUDA_VISIBLE_DEVICES= CODA_CACHE_DIR=/dev/null/folder");
  EXPECT_EQ(run.status, 0);
  std::set<std::string> subjects;
  const nlohmann::json json = json_of(run);
  for (const auto& finding : json["findings"]) {
    subjects.insert(finding["subject"]);
    EXPECT_EQ(finding["fix"].get<std::string>().empty(), finding["found"].get<bool>()) << finding;
    EXPECT_NE(finding["detail"], "") << finding;
    if (finding["subject"] == "cache folder") {
      EXPECT_FALSE(finding["found"]) << finding;
    }
  }
  EXPECT_THAT(subjects, testing::IsSupersetOf({"processor", "oneDNN", "CUDA driver", "NVRTC",
                                               "cuBLASLt", "cuDNN", "cache folder"}));
}

}  // namespace
}  // namespace coda::test

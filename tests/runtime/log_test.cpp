// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <coda/version.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coda {
namespace {

using Lines = std::vector<std::pair<int, std::string>>;

void keep(int level, const char* message, void* user) {
  static_cast<Lines*>(user)->emplace_back(level, message);
}

// CODA_LOG is not set in tests: warnings and errors pass.
TEST(Log, passes_warnings_and_errors_to_the_callback_and_no_less) {
  Lines lines;
  set_log_callback(keep, &lines);
  log(LogLevel::debug, "a");
  log(LogLevel::info, "b");
  log(LogLevel::warning, std::string_view("cut here", 3));
  log(LogLevel::error, "d");
  log(LogLevel::off, "never");
  set_log_callback(nullptr, nullptr);
  EXPECT_EQ(lines, (Lines{{2, "cut"}, {3, "d"}}));
}

TEST(Log, goes_to_stderr_without_a_callback) {
  testing::internal::CaptureStderr();
  log(LogLevel::warning, "unfused: odd pitch");
  log(LogLevel::info, "not this");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "coda warning: unfused: odd pitch\n");
}

TEST(Log, a_callback_may_log_and_replace_itself) {
  static int calls = 0;
  set_log_callback(
      [](int, const char*, void*) {
        ++calls;
        set_log_callback([](int, const char*, void*) { calls += 10; }, nullptr);
        log(LogLevel::error, "again");
      },
      nullptr);
  log(LogLevel::error, "first");
  set_log_callback(nullptr, nullptr);
  EXPECT_EQ(calls, 11);
}

TEST(Log, levels_have_names_and_warning_is_the_default) {
  EXPECT_EQ(log_level_from("debug"), LogLevel::debug);
  EXPECT_EQ(log_level_from("info"), LogLevel::info);
  EXPECT_EQ(log_level_from("warning"), LogLevel::warning);
  EXPECT_EQ(log_level_from("error"), LogLevel::error);
  EXPECT_EQ(log_level_from("off"), LogLevel::off);
  EXPECT_EQ(log_level_from(""), LogLevel::warning);
  EXPECT_EQ(log_level_from("loud"), LogLevel::warning);
}

TEST(Version, of_the_library_is_that_of_the_headers) {
  EXPECT_STREQ(version(), CODA_VERSION_STRING);
  const std::string text = std::to_string(CODA_VERSION_MAJOR) + "." +
                           std::to_string(CODA_VERSION_MINOR) + "." +
                           std::to_string(CODA_VERSION_PATCH);
  EXPECT_EQ(text, version());
}

}  // namespace
}  // namespace coda

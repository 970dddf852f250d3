// SPDX-License-Identifier: Apache-2.0
// Options of coda train and coda generate that make no sense: refused by name, before any work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "command.h"

namespace coda::test {
namespace {

using testing::HasSubstr;

class TrainOptions : public testing::Test {
 protected:
  TrainOptions() : text_(home_.file("text", std::string(4000, 'a') + std::string(4000, 'b'))) {}

  void expect_refused(const std::string& options, const std::string& message) const {
    const std::string out = home_.path() + "/out";
    const Outcome run = run_coda("train " + text_ + " --out " + out + " " + options);
    EXPECT_EQ(run.status, 2) << options;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(out)) << options;
  }

  const Folder home_;
  const std::string text_;
};

TEST_F(TrainOptions, numbers_out_of_range_are_refused_by_name) {
  for (const char* option : {"--steps", "--batch", "--micro", "--hidden", "--layers"})
    for (const char* value : {" 0", " -1", " 99999999999999999999"})
      expect_refused(std::string(option) + value,
                     std::string("error: ") + option + "\n  expected  a number from 1 to ");
  for (const char* option : {"--save", "--evaluate", "--seed", "--threads"})
    expect_refused(std::string(option) + " -1",
                   std::string("error: ") + option + "\n  expected  a number from 0 to ");
  for (const char* option : {"--lr", "--decay", "--clip", "--z-loss", "--smoothing", "--floor"})
    for (const char* value : {" -1", " nan", " inf"})
      expect_refused(std::string(option) + value,
                     std::string("error: ") + option + "\n  expected  a number from 0");
  expect_refused("--keep 0", "error: --keep\n  expected  a number from 1 to ");
}

TEST_F(TrainOptions, a_model_is_given_in_one_way) {
  expect_refused("--config c --hidden 64", "--hidden");
  expect_refused("--init c --layers 2", "--layers");
  expect_refused("--init c --config c", "--config");
  expect_refused("--init c --resume c", "--init");
}

TEST_F(TrainOptions, models_and_states_that_cannot_work_are_refused) {
  expect_refused("--config " + text_, "valid JSON");
  const std::string pipe = home_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refused("--config " + pipe, "expected  a regular file\n  got       something else");
  expect_refused("--config " CODA_SOURCE_DIR "/tests/cli/models/gemma2-2b --length 10000",
                 "--length\n  expected  at most max_position_embeddings");
  expect_refused("--type f16 --state model", "second moments vanish");
}

TEST_F(TrainOptions, generate_refuses_by_name) {
  for (const char* option : {"--tokens -1", "--context 0", "--threads -1", "--prompt ''"}) {
    const Outcome run = run_coda(std::string("generate nowhere ") + option);
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr(std::string("error: ") +
                                   std::string(option).substr(0, std::string(option).find(' '))));
  }
}

}  // namespace
}  // namespace coda::test

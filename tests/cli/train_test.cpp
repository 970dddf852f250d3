// SPDX-License-Identifier: Apache-2.0
// coda train and coda generate: runs that are stopped in any way go on to the same bits, and bad
// input leaves checkpoints as they were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "train_run.h"

namespace coda::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using Train = TrainRun;

TEST_F(Train, a_run_that_resumes_ends_with_the_same_bits) {
  ASSERT_EQ(train("whole").status, 0);
  ASSERT_EQ(train("parts", "--save 1 --keep 99").status, 0);
  for (const char* later : {"step-00000006", "step-00000007", "step-00000008"})
    fs::remove_all(folder_ / "parts" / later);
  ASSERT_EQ(train("parts", "--resume " + path("parts")).status, 0);
  expect_same_end("whole", "parts");
  std::ifstream metrics(folder_ / "parts" / "metrics.csv");
  int lines = 0;
  for (std::string line; std::getline(metrics, line);) ++lines;
  EXPECT_EQ(lines, 1 + 8);
}

TEST_F(Train, a_run_that_is_killed_resumes_to_the_same_bits) {
  if (std::system("command -v timeout >/dev/null") != 0) GTEST_SKIP() << "no timeout(1)";
  ASSERT_EQ(train("whole").status, 0);
  for (const char* seconds : {"0.05", "0.15", "0.3"}) {
    train("killed", "--save 1", std::string("timeout -s KILL ") + seconds);
    bool any = false;
    for (const auto& entry : fs::directory_iterator(folder_ / "killed"))
      any = any || entry.path().filename().string().rfind("step-", 0) == 0;
    if (!any) fs::remove_all(folder_ / "killed");  // of which metrics.csv may be left
    ASSERT_EQ(train("killed", any ? "--resume " + path("killed") : "").status, 0) << seconds;
    expect_same_end("whole", "killed");
    fs::remove_all(folder_ / "killed");
  }
}

TEST_F(Train, a_run_that_a_signal_ends_saves_and_ends_with_128_and_its_number) {
  const std::pair<const char*, int> signals[] = {{"INT", 130}, {"TERM", 143}};
  for (const auto& signal : signals) {
    const std::string out = signal.first;
    // Once a step is through, however long the start takes.
    const std::string wait = "sh -c '\"$@\" & p=$!; until grep -q ^0, " + path(out) +
                             "/metrics.csv 2>/dev/null; do kill -0 $p && sleep 0.05 || break; "
                             "done; kill -" +
                             out + " $p; wait $p' sh";
    const Outcome run =
        run_coda("train " + path("text") + " --out " + path(out) +
                     " --batch 2 --length 32 --hidden 32 --ffn 48 --layers 1 --heads 2"
                     " --steps 1000000 --evaluate 0",
                 wait);
    EXPECT_EQ(run.status, signal.second) << run.err;
    EXPECT_EQ(run_coda("generate " + path(out) + " --tokens 3").status, 0);
  }
}

TEST_F(Train, fused_and_unfused_plans_reach_the_same_loss) {
  const auto loss = [&](const Outcome& run) { return json_of(run)["loss"].get<double>(); };
  const double fused = loss(train("fused", "--json"));
  const double unfused = loss(train("unfused", "--json --unfused"));
  EXPECT_LT(fused, 5.0);  // it learns: ln 256 is 5.55
  EXPECT_NEAR(fused, unfused, 0.01 * fused);
}

TEST_F(Train, the_memory_of_the_plan_is_shown_by_tensor) {
  const Outcome run = train("run", "--memory --quiet");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("memory of the plan, at its peak:\n"));
  // Gate and up of two layers, each for 2 x 32 tokens with 48 columns of float32.
  EXPECT_THAT(run.err, testing::ContainsRegex("gate.up.out +x 4 +0.049 MB\n"));
  EXPECT_THAT(run.err, testing::ContainsRegex("all buffers +[0-9.]+ MB\n"));
  EXPECT_THAT(train("other", "--quiet").err, testing::Not(HasSubstr("memory")));
}

TEST_F(Train, a_run_that_recomputes_ends_with_the_same_bits_and_may_stop_doing_so) {
  ASSERT_EQ(train("whole").status, 0);
  ASSERT_EQ(train("recomputed", "--recompute --save 1 --keep 99").status, 0);
  expect_same_end("whole", "recomputed");
  for (const char* later : {"step-00000006", "step-00000007", "step-00000008"})
    fs::remove_all(folder_ / "recomputed" / later);
  ASSERT_EQ(train("recomputed", "--resume " + path("recomputed")).status, 0);
  expect_same_end("whole", "recomputed");
}

TEST_F(Train, types_of_weights_and_states_are_chosen) {
  for (const char* types : {"--type bf16", "--type bf16 --state model", "--type f16"}) {
    const Outcome run = train("typed", std::string("--json ") + types);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_LT(json_of(run)["loss"].get<double>(), 5.0) << types;
    fs::remove_all(folder_ / "typed");
  }
}

TEST_F(Train, bad_input_is_one_error_and_leaves_checkpoints) {
  ASSERT_EQ(train("run").status, 0);
  const fs::path model = folder_ / "run" / "step-00000008" / "model.safetensors";
  const std::string before = contents(model);
  const std::string resume = "--resume " + path("run");
  const auto refused = [&](const std::string& more, const std::string& message) {
    const Outcome run = train("other", more);
    EXPECT_EQ(run.status, 2) << more;
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  refused(resume + " --seed 2", "--seed");
  refused("--resume " + path("nowhere"), "nowhere");
  refused("--schedule cosin", "cosine");
  refused("--type f64", "--type");
  fs::resize_file(model, before.size() - 5);
  refused(resume, "model.safetensors");
  EXPECT_EQ(run_coda("train " + path("missing") + " --out " + path("other")).status, 2);
  EXPECT_EQ(run_coda("generate " + path("nowhere")).status, 2);
}

TEST_F(Train, a_full_disk_leaves_the_old_checkpoint) {
  ASSERT_EQ(train("run", "--save 4").status, 0);
  const std::string before = contents(folder_ / "run" / "step-00000008" / "model.safetensors");
  // Files of at most 8 blocks of 512 or 1024 bytes: metrics fit, weights do not. The checkpoint
  // that does not fit is another of a step that has one.
  const Outcome run = train("run", "--resume " + path("run/step-00000004"), "ulimit -f 8;");
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("File too large"));
  EXPECT_EQ(contents(folder_ / "run" / "step-00000008" / "model.safetensors"), before);
  for (const auto& entry : fs::directory_iterator(folder_ / "run"))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("partial")));
}

}  // namespace
}  // namespace coda::test

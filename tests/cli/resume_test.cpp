// SPDX-License-Identifier: Apache-2.0
// What a run goes on from: another model, other data, damaged or foreign files are refused before
// anything is written, and no run destroys or mixes what another one left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "train_run.h"

namespace coda::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// Whole messages, so that none is a vague one.
struct Refusal {
  std::string where, expected, got, fix;
};

void expect_refused(const Outcome& run, const Refusal& refusal, int status = 2) {
  EXPECT_EQ(run.status, status) << run.out << run.err;
  const json error = json_of(run).value("error", json::object());
  EXPECT_EQ(error.value("where", ""), refusal.where);
  EXPECT_EQ(error.value("expected", ""), refusal.expected);
  EXPECT_EQ(error.value("got", ""), refusal.got);
  EXPECT_EQ(error.value("fix", ""), refusal.fix);
}

/// Adds a tensor of one float32 to a safetensors file.
void add_tensor(const fs::path& path, const std::string& name, float value) {
  const std::string file = contents(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::string data = file.substr(8 + length);
  json header = json::parse(file.substr(8, length));
  header[name] = {{"dtype", "F32"},
                  {"shape", {1}},
                  {"data_offsets", {data.size(), data.size() + sizeof value}}};
  const std::string text = header.dump();
  length = text.size();
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), sizeof length) << text << data
      << std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

class Resume : public TrainRun {
 protected:
  /// A run in "run" with the checkpoints 4 and 8.
  Resume() {
    const Outcome run = train("run", "--save 4 --quiet");
    EXPECT_EQ(run.status, 0) << run.err;
  }
  std::string half() const { return path("run/step-00000004"); }
};

TEST_F(Resume, the_model_is_that_of_the_checkpoint) {
  ASSERT_EQ(settings("bare", "--resume " + half() + " --quiet").status, 0);
  expect_same_end("run", "bare");
  ASSERT_EQ(settings("some", "--layers 2 --resume " + half() + " --quiet").status, 0);
  expect_same_end("run", "some");
  ASSERT_EQ(settings("config", "--config " + half() + " --resume " + half() + " -q").status, 0);
  expect_same_end("run", "config");
  const std::pair<const char*, const char*> sizes[] = {
      {"--layers", "1"}, {"--heads", "4"}, {"--hidden", "64"}, {"--ffn", "96"}};
  for (const auto& size : sizes) {
    const std::string name = size.first;
    const Outcome run = settings("other", name + " " + size.second + " --json --resume " + half());
    expect_refused(run, {name,
                         std::string(name == "--hidden" ? "32"
                                     : name == "--ffn"  ? "48"
                                                        : "2") +
                             ", as in " + half(),
                         size.second,
                         "a run goes on with its model: leave the option out, or begin a new run "
                         "without --resume"});
  }
  json config = json::parse(contents(folder_ / "run/step-00000004/config.json"));
  config["rms_norm_eps"] = 1e-3;
  const std::string other = home_.file("other.json", config.dump());
  expect_refused(
      settings("other", "--json --config " + other + " --resume " + half()),
      {"the model: key 'rms_norm_eps'", "1e-05, as in " + half() + "/config.json", "0.001",
       "a run goes on with its model: leave --config and the sizes out, or begin a new "
       "run without --resume"});
  home_.file("run/step-00000004/config.json", "{");
  EXPECT_THAT(settings("other", "--resume " + half()).err, HasSubstr("valid JSON"));
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(Resume, other_data_is_refused) {
  const std::string before = contents(folder_ / "text");
  const auto refused = [&](const std::string& text) {
    home_.file("text", text);
    const Outcome run = train("other", "--json --resume " + half());
    EXPECT_EQ(run.status, 2) << run.out;
    const json error = json_of(run).value("error", json::object());
    EXPECT_EQ(error.value("where", ""), "DATA");
    EXPECT_THAT(error.value("expected", ""),
                testing::MatchesRegex("'" + std::to_string(before.size()) +
                                      " tokens, hash [0-9a-f]+', the data of the run"));
    EXPECT_THAT(error.value("got", ""), testing::MatchesRegex("'" + std::to_string(text.size()) +
                                                              " tokens, hash [0-9a-f]+'"));
    EXPECT_EQ(error.value("fix", ""),
              "go on with the file that the run began with; for other data begin a new run with "
              "the weights of this one: --init");
  };
  refused(before + "x");
  std::string changed = before;
  changed[changed.size() / 2] ^= 1;
  refused(changed);
  home_.file("text", before);
  EXPECT_EQ(train("other", "--quiet --resume " + half()).status, 0);
}

TEST_F(Resume, tensors_that_the_model_does_not_have_are_refused) {
  const fs::path model = folder_ / "run/step-00000008/model.safetensors";
  add_tensor(model, "model.layers.0.self_attn.rotary_emb.inv_freq", 1);
  EXPECT_EQ(run_coda("generate " + path("run") + " --tokens 2").status, 0);
  add_tensor(model, "model.layers.0.self_attn.q_proj.bias", 1);
  add_tensor(model, "other.weight", 1);
  const std::string folder = path("run/step-00000008");
  const Refusal refusal{folder + ": tensor 'model.layers.0.self_attn.q_proj.bias'",
                        "the 21 tensors of the model alone", "2 that the model does not have",
                        "use the config.json that belongs to this file"};
  expect_refused(run_coda("generate --json " + path("run")), refusal);
  expect_refused(settings("other", "--json --init " + folder), refusal);
  add_tensor(folder_ / "run/step-00000004/optimizer.safetensors", "momentum.other", 1);
  expect_refused(train("other", "--json --resume " + half()),
                 {half() + "/optimizer.safetensors: tensor 'momentum.other'",
                  "the 63 tensors of the model alone", "1 that the model does not have",
                  "use the config.json that belongs to this file"});
}

TEST_F(Resume, a_folder_with_another_run_is_left_alone) {
  const std::string model = contents(folder_ / "run/step-00000008/model.safetensors");
  const std::string metrics = contents(folder_ / "run/metrics.csv");
  const Refusal refusal{
      "--out " + path("run"), "a folder without a run",
      "2 checkpoints of another run, the last " + path("run/step-00000008"),
      "choose another --out, remove the folder, or go on with --resume " + path("run")};
  expect_refused(train("run", "--json"), refusal);
  expect_refused(settings("run", "--json --init " + path("run")), refusal);
  fs::create_directory(folder_ / "copy");
  fs::copy(half(), folder_ / "copy/step-00000004");
  expect_refused(train("run", "--json --resume " + path("copy")), refusal);
  EXPECT_EQ(contents(folder_ / "run/step-00000008/model.safetensors"), model);
  EXPECT_EQ(contents(folder_ / "run/metrics.csv"), metrics);
  fs::remove_all(folder_ / "run/step-00000004");
  fs::remove_all(folder_ / "run/step-00000008");
  expect_refused(train("run", "--json"),
                 {"--out " + path("run"), "a folder without a run", "metrics.csv of another run",
                  "choose another --out or remove the folder"});
  EXPECT_EQ(contents(folder_ / "run/metrics.csv"), metrics);
}

TEST_F(Resume, two_runs_do_not_write_one_folder) {
  const Refusal refusal{"--out " + path("run"), "a folder that no other run writes",
                        "another coda train writes there now",
                        "wait for it or stop it (it saves before it ends), or choose another "
                        "--out"};
  const int lock = open(path("run/.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  expect_refused(train("run", "--json --resume " + half()), refusal);
  close(lock);
  EXPECT_EQ(train("run", "--quiet --resume " + half()).status, 0);
}

TEST_F(Resume, a_damaged_state_is_one_error) {
  const std::string file = half() + "/state.json";
  const std::string before = contents(file);
  const std::string fix =
      "resume from another checkpoint, or begin a new run with the weights of this one: --init";
  const auto refused = [&](const char* key, const json& value, const std::string& expected,
                           const std::string& got) {
    json state = json::parse(before);
    state[key] = value;
    home_.file("run/step-00000004/state.json", state.dump());
    const std::string inner = std::string(key) == "settings" ? "settings.steps" : key;
    expect_refused(train("other", "--json --resume " + half()),
                   {file + ": key '" + inner + "'", expected, got, fix});
  };
  refused("schema", "2", "2", "\"2\"");
  refused("schema", 1, "2", "1");
  refused("step", "4", "a whole number from 0", "\"4\"");
  refused("step", -4, "a whole number from 0", "-4");
  refused("step", 9, "at most 8, the steps of the run", "9");
  refused("step", 5, "4, as the folder's name says", "5");
  refused("tokens", -1, "a whole number from 0", "-1");
  refused("tokens", 1.5, "a whole number from 0", "1.5");
  refused("tokens", uint64_t{1} << 63, "a whole number from 0", "9223372036854775808");
  refused("data_position", 3, "16 at step 4", "3");
  refused("settings", {{"steps", 8}}, "a text", "8");
  refused("settings", {{"steps", "8x"}}, "the number of the run's steps", "'8x'");
  fs::remove(file);
  fs::create_directory(file);
  expect_refused(train("other", "--json --resume " + half()),
                 {file, "the state of a run, a file", "a folder",
                  "resume from a folder that coda train made; for a model's folder: --init"});
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(Resume, incomplete_checkpoints_are_passed_over) {
  fs::copy(folder_ / "run", folder_ / "other", fs::copy_options::recursive);
  for (const char* missing : {"model.safetensors", "config.json", "state.json"}) {
    fs::remove(folder_ / "other/step-00000008" / missing);
    const Outcome run = train("other", "--resume " + path("other"));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("going on from " + path("other/step-00000004\n")));
    expect_same_end("run", "other");
  }
  fs::remove_all(folder_ / "other/step-00000004");
  fs::remove(folder_ / "other/step-00000008/model.safetensors");
  fs::remove(folder_ / "other/step-00000008/config.json");
  expect_refused(train("new", "--json --resume " + path("other")),
                 {path("other"), "a model's folder or a run with a whole checkpoint",
                  path("other/step-00000008") + " without config.json", "see coda train --out"});
}

TEST_F(Resume, nothing_is_left_of_a_finished_run) {
  const std::string metrics = contents(folder_ / "run/metrics.csv");
  const Outcome run = train("run", "--resume " + path("run"));
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, path("run/step-00000008") + "\n");
  EXPECT_THAT(run.err, StartsWith("nothing is left to do: the run has done its 8 steps"));
  const json object = json_of(train("run", "--json --resume " + path("run")));
  EXPECT_EQ(object.value("checkpoint", ""), path("run/step-00000008"));
  EXPECT_EQ(object.value("step", 0), 8);
  EXPECT_EQ(contents(folder_ / "run/metrics.csv"), metrics);
}

TEST_F(Resume, metrics_that_are_damaged_or_have_gaps_are_told) {
  const std::string metrics = contents(folder_ / "run/metrics.csv");
  const size_t second = metrics.find("\n1,");
  home_.file("run/metrics.csv", metrics.substr(0, second) + metrics.substr(metrics.find("\n2,")));
  const Outcome gap = train("run", "--resume " + half());
  EXPECT_EQ(gap.status, 0) << gap.err;
  EXPECT_THAT(gap.err,
              HasSubstr("note: " + path("run/metrics.csv") + " has 3 of the 4 steps so far\n"));
  home_.file("run/metrics.csv", metrics.substr(0, second) + "\nx\n");
  expect_refused(train("run", "--json --resume " + half()),
                 {path("run/metrics.csv") + ":3", "8 fields, as the header says", "'x'",
                  "check the path, or move the file away: it is only a log"});
  fs::remove(folder_ / "run/metrics.csv");
  EXPECT_EQ(train("run", "--quiet --resume " + half()).status, 0);
}

TEST_F(Resume, weights_that_are_not_finite_are_refused_before_any_step) {
  const fs::path model = folder_ / "run/step-00000008/model.safetensors";
  std::string file = contents(model);
  const float nan = std::nanf("");
  std::memcpy(file.data() + file.size() - sizeof nan, &nan, sizeof nan);
  home_.file("run/step-00000008/model.safetensors", file);
  const Outcome run = settings("other", "--json --init " + path("run/step-00000008"));
  EXPECT_EQ(run.status, 2);
  const json error = json_of(run).value("error", json::object());
  EXPECT_THAT(error.value("where", ""), StartsWith(path("run/step-00000008") + ": tensor '"));
  EXPECT_EQ(error.value("expected", ""), "finite numbers");
  EXPECT_THAT(error.value("got", ""), StartsWith("nan at element "));
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(Resume, a_run_that_diverges_keeps_its_last_finite_step) {
  // Steps of 1000 on each weight: products of the second forward pass overflow float16.
  const auto diverge = [&](const std::string& more) {
    return run_coda("train " + path("text") + " --out " + path("diverged") +
                    " --json --quiet --batch 2 --length 32 --hidden 32 --ffn 48 --layers 2"
                    " --heads 2 --steps 8 --type f16 --lr 1000 --warmup 0 --threads 2 " +
                    more);
  };
  expect_refused(diverge(""),
                 {"step 1", "a finite loss", "nan",
                  "lower the learning rate or clip more; parameters are those after 1 step; the "
                  "last checkpoint is " +
                      path("diverged/step-00000001")},
                 1);
  EXPECT_TRUE(fs::exists(folder_ / "diverged/loss.svg"));
  EXPECT_EQ(run_coda("generate " + path("diverged/step-00000001") + " --tokens 0").status, 0);
}

TEST_F(Resume, a_run_whose_last_steps_cannot_be_saved_says_both) {
  // The weights of the one step that is finite do not fit into files of at most 4 to 8 kB.
  const Outcome run =
      run_coda("train " + path("text") + " --out " + path("diverged") +
                   " --json --quiet --batch 2 --length 32 --hidden 32 --ffn 48 --layers 2"
                   " --heads 2 --steps 8 --type f16 --lr 1000 --warmup 0 --threads 2",
               "ulimit -f 8; trap '' XFSZ;");
  EXPECT_EQ(run.status, 1) << run.out;
  const json error = json_of(run).value("error", json::object());
  EXPECT_EQ(error.value("expected", ""), "a finite loss");
  EXPECT_THAT(error.value("fix", ""), HasSubstr("after 1 step; they could not be saved: "));
  EXPECT_THAT(error.value("fix", ""), testing::EndsWith("; there is no checkpoint"));
}

}  // namespace
}  // namespace coda::test

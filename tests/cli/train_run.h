// SPDX-License-Identifier: Apache-2.0
// Small runs of coda train in a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "command.h"

namespace coda::test {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class TrainRun : public testing::Test {
 protected:
  TrainRun() {
    folder_ = home_.path();
    std::ofstream text(folder_ / "text");
    for (unsigned i = 0; i < 4000; ++i) text << "line " << (i * 7919U) % 977U << " of a text\n";
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Eight steps of a model of two layers and heads, 32 wide.
  Outcome train(const std::string& out, const std::string& more = "",
                const std::string& before = "") const {
    return settings(out, "--hidden 32 --ffn 48 --layers 2 --heads 2 " + more, before);
  }

  /// The same settings without the sizes of a model.
  Outcome settings(const std::string& out, const std::string& more = "",
                   const std::string& before = "") const {
    return run_coda("train " + path("text") + " --out " + path(out) +
                        " --batch 2 --micro 2 --length 32"
                        " --steps 8 --lr 0.01 --evaluate 4 --threads 2 " +
                        more,
                    before);
  }

  void expect_same_end(const std::string& a, const std::string& b) const {
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
      const std::string end = contents(folder_ / a / "step-00000008" / file);
      EXPECT_FALSE(end.empty()) << file;
      EXPECT_TRUE(end == contents(folder_ / b / "step-00000008" / file)) << file;
    }
  }

  const Folder home_;
  std::filesystem::path folder_;
};

}  // namespace coda::test

// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace coda::test {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

Outcome run_coda(const std::string& arguments, const std::string& environment) {
  const Folder folder;
  const std::string out = folder.path() + "/out", err = folder.path() + "/err";
  const std::string command =
      environment + " " CODA_BINARY " " + arguments + " >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(command.c_str());
  Outcome run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = read(out);
  run.err = read(err);
  return run;
}

nlohmann::json json_of(const Outcome& run) {
  nlohmann::json json = nlohmann::json::parse(run.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << run.out << run.err;
  if (!json.is_object()) return nlohmann::json::object();
  EXPECT_EQ(json.value("schema", 0), 1) << run.out;
  return json;
}

}  // namespace coda::test

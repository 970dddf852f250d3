// SPDX-License-Identifier: Apache-2.0
// Runs the coda binary as a user does and keeps what it printed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "support/folder.h"

namespace coda::test {

struct Outcome {
  int status = -1;  // exit code; 128 + signal where one ended the program
  std::string out, err;
};

/// `arguments` as a shell reads them; `environment` such as "NO_COLOR=1".
Outcome run_coda(const std::string& arguments, const std::string& environment = {});

/// The object that --json printed; the test fails when it is no JSON or has no schema number.
nlohmann::json json_of(const Outcome& run);

}  // namespace coda::test

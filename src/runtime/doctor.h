// SPDX-License-Identifier: Apache-2.0
// What this machine offers: one finding for each thing that coda can use, with a fix where it is
// missing.
#pragma once

#include <string>
#include <vector>

namespace coda {

struct Finding {
  std::string subject;  // "CUDA driver"
  bool found = false;
  std::string detail;  // version and place, or why it counts as missing
  std::string fix;     // empty where found
};

/// Opens libraries and asks for versions; changes nothing and creates no CUDA context.
std::vector<Finding> examine_machine();

}  // namespace coda

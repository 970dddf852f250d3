// SPDX-License-Identifier: Apache-2.0
// Runs another program, without a shell and without touching this process's other children.
#pragma once

#include <string>
#include <vector>

namespace coda::cuda {

struct ProcessEnd {
  bool started = false;  // false: the program was not found or could not be started
  int exit_code = -1;    // -1: unknown, or ended by a signal
  int signal = 0;
};

/// Runs `arguments` (the program first, looked up on PATH where it has no slash) to its end. Its
/// output goes to the file `output`, or nowhere where that is empty; its messages go nowhere.
ProcessEnd run_process(const std::vector<std::string>& arguments, const std::string& output = {});

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// Translations in processes of their own, several at a time: the helper program coda-nvrtc, which
// is installed beside the library, reads a text from a file and writes the outcome to another.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda/runtime/translate.h"

namespace coda::cuda {

struct Job {
  const std::string* name;
  const std::string* text;
};

struct NoWorker {};  // the helper could not do it: translate in this process
struct DeadWorker {
  int signal;  // what ended the helper: do not try this text in this process
};
using WorkerResult = std::variant<NoWorker, DeadWorker, Translation>;

/// The path of coda-nvrtc: CODA_NVRTC_HELPER, or libexec/coda beside or above the folder of the
/// file that holds this code. "" where there is none.
std::string find_helper();

/// One result for each job, from at most `workers` processes at a time (0: one a core).
std::vector<WorkerResult> run_workers(const std::string& helper, const Nvrtc& nvrtc,
                                      std::span<const Job> jobs, std::span<const std::string> flags,
                                      int workers);

/// The helper's main function: NVRTC-PATH SOURCE OUTPUT NAME FLAG...
int run_helper(std::span<char* const> arguments);

}  // namespace coda::cuda

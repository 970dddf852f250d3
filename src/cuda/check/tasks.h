// SPDX-License-Identifier: Apache-2.0
// What is checked on a GPU: programs, shapes, types, layouts and configurations, each a task that
// can be repeated by its number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/check.h"
#include "check/draw.h"
#include "check/programs.h"
#include "cuda/backend/configure.h"

namespace coda::cuda {

struct TaskOptions {
  std::vector<check::NamedProgram> programs;
  std::map<std::string, int64_t> sizes;  // size parameters that are given
  int cases = 4;                         // aligned calls of each program
  uint64_t generated = 0;                // programs of the generator, besides
  uint64_t seed = 1;                // of data, shapes and configurations; of the first generated
  std::optional<ConfigWish> wish;   // for all; otherwise most tasks have one of their own
  std::optional<check::Case> only;  // this case alone, aligned
  std::optional<DType> type;        // with this T alone
  std::optional<int> number;        // this task alone
};

struct Task {
  int number = 0;
  std::string name;
  Instance instance;
  check::Case c;
  check::Layout layout = check::Layout::aligned;
  std::optional<ConfigWish> wish;
  bool forced = false;  // the wish was given, not drawn: where it does not fit, the task fails

  std::string text() const;
};

std::vector<Task> make_tasks(const TaskOptions& options);

}  // namespace coda::cuda

// SPDX-License-Identifier: Apache-2.0
// A plan with memory of its own: for tests that run plans on chosen numbers.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "execute/executor.h"
#include "rewrite/graph_reference.h"

namespace coda::test {

class PlanRun {
 public:
  /// Every tensor and the arena begin as NaN. The executor outlives the run.
  PlanRun(const execute::Executor& executor, int64_t tokens);

  /// Numbers of an input, or those that an output holds before a run that adds to it; rounded to
  /// the type of the tensor.
  void set(const std::string& name, const std::vector<double>& values);
  /// The inputs of the plan among `matrices`.
  void set(const Matrices& matrices);
  Matrix get(const std::string& name) const;
  double number(const std::string& name) const { return get(name).values.at(0); }

  /// `run.tokens` is filled in.
  void run(execute::Run run = {});

 private:
  const rewrite::Buffer& buffer(const std::string& name) const;

  const execute::Executor& executor_;
  const int64_t tokens_;
  std::map<std::string, std::vector<std::byte>> memory_;
  std::vector<std::byte> arena_;
};

}  // namespace coda::test

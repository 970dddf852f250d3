// SPDX-License-Identifier: Apache-2.0
// The learning rate of every step: a linear warm-up, then a decay to a floor or none.
#pragma once

#include <cstdint>
#include <string>

namespace coda::train {

enum class Decay : unsigned char { cosine, linear, constant };

/// "cosine", "linear" or "constant"; refuses any other name.
Decay decay(const std::string& name);

struct ScheduleOptions {
  Decay decay = Decay::cosine;
  double rate = 3e-4;  // the highest
  int64_t steps = 1;   // of the whole run
  int64_t warmup = 0;  // steps below the highest rate
  double floor = 0.1;  // part of the highest rate that the last step has
};

class Schedule {
 public:
  /// Refuses no steps at all, a warm-up longer than the run, and a rate or floor out of range.
  explicit Schedule(const ScheduleOptions& options);

  /// Steps are counted from 0. Step i < warmup has (i + 1) / (warmup + 1) of the highest rate, so
  /// that the first one moves; step `warmup` has all of it; the last one has the floor. Where the
  /// warm-up leaves but one step, nothing decays. Refuses a step that is not of the run.
  double rate(int64_t step) const;

 private:
  ScheduleOptions options_;
};

}  // namespace coda::train

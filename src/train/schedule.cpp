// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.h"

#include <coda/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace coda::train {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"cosine", "linear", "constant"};

[[noreturn]] void refuse(std::string_view where, std::string_view expected, std::string_view got,
                         std::string_view fix) {
  throw Error(ErrorKind::argument, where, expected, got, fix);
}

}  // namespace

Decay decay(const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end())
    refuse("schedule", "cosine, linear or constant", "'" + name + "'", "use one of these");
  return static_cast<Decay>(found - kNames.begin());
}

Schedule::Schedule(const ScheduleOptions& options) : options_(options) {
  if (options.steps < 1)
    refuse("schedule: steps", "at least 1", std::to_string(options.steps), "correct the value");
  if (options.warmup < 0 || options.warmup > options.steps)
    refuse("schedule: warm-up",
           "0 to " + std::to_string(options.steps) + " steps, those of the run",
           std::to_string(options.warmup), "shorten the warm-up or lengthen the run");
  if (!std::isfinite(options.rate) || options.rate < 0)
    refuse("schedule: learning rate", "a finite number of at least 0", std::to_string(options.rate),
           "correct the value");
  if (!(options.floor >= 0 && options.floor <= 1))
    refuse("schedule: floor", "a part of the learning rate, 0 to 1", std::to_string(options.floor),
           "correct the value");
}

double Schedule::rate(int64_t step) const {
  const auto& [decay, rate, steps, warmup, floor] = options_;
  if (step < 0 || step >= steps)
    refuse("schedule: step", "0 to " + std::to_string(steps - 1), std::to_string(step),
           "lengthen the run");
  if (step < warmup)
    return rate * (static_cast<double>(step + 1) / (static_cast<double>(warmup) + 1));
  if (decay == Decay::constant || warmup + 1 == steps) return rate;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(steps - 1 - warmup);
  const double left =
      decay == Decay::linear ? 1 - progress : 0.5 + 0.5 * std::cos(std::numbers::pi * progress);
  return rate * (floor + (1 - floor) * left);
}

}  // namespace coda::train

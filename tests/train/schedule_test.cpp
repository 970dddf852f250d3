// SPDX-License-Identifier: Apache-2.0
// The learning rate: its corner points, its shape between them, and the refusals.
#include "train/schedule.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>

namespace coda::train {
namespace {

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing refused";
}

TEST(Schedule, HasItsCornerPoints) {
  for (const Decay decay : {Decay::cosine, Decay::linear}) {
    const Schedule schedule(
        {.decay = decay, .rate = 0.25, .steps = 1003, .warmup = 7, .floor = 0.125});
    for (int64_t step = 0; step < 7; ++step)
      EXPECT_DOUBLE_EQ(schedule.rate(step), 0.25 * static_cast<double>(step + 1) / 8);
    EXPECT_EQ(schedule.rate(7), 0.25);
    EXPECT_EQ(schedule.rate(1002), 0.25 * 0.125);
    for (int64_t step = 8; step < 1003; ++step)
      EXPECT_LT(schedule.rate(step), schedule.rate(step - 1)) << step;
    // Half the way, both are half the way down; a cosine starts slower and ends slower.
    EXPECT_NEAR(schedule.rate(7 + 995 / 2) + schedule.rate(7 + 995 / 2 + 1), 0.25 * 1.125, 1e-12);
  }
  const Schedule cosine(
      {.decay = Decay::cosine, .rate = 1, .steps = 13, .warmup = 0, .floor = 0.2});
  const Schedule linear(
      {.decay = Decay::linear, .rate = 1, .steps = 13, .warmup = 0, .floor = 0.2});
  EXPECT_NEAR(cosine.rate(4), 0.2 + 0.8 * 0.75, 1e-15);  // cos(pi / 3) = 1 / 2
  EXPECT_NEAR(cosine.rate(8), 0.2 + 0.8 * 0.25, 1e-15);
  EXPECT_NEAR(linear.rate(4), 0.2 + 0.8 * 2 / 3, 1e-15);
  EXPECT_NEAR(linear.rate(3), 0.8, 1e-15);
}

TEST(Schedule, StaysWhereItIsConstant) {
  const Schedule schedule({.decay = Decay::constant, .rate = 3e-4, .steps = 11, .warmup = 3});
  EXPECT_DOUBLE_EQ(schedule.rate(0), 3e-4 / 4);
  for (int64_t step = 3; step < 11; ++step) EXPECT_EQ(schedule.rate(step), 3e-4);
}

TEST(Schedule, TakesTheShortestRuns) {
  for (const Decay decay : {Decay::cosine, Decay::linear, Decay::constant}) {
    EXPECT_EQ(Schedule({.decay = decay, .rate = 2, .steps = 1}).rate(0), 2);
    EXPECT_EQ(Schedule({.decay = decay, .rate = 2, .steps = 3, .warmup = 2}).rate(2), 2);
    EXPECT_EQ(Schedule({.decay = decay, .rate = 2, .steps = 1, .warmup = 1}).rate(0), 1);
    EXPECT_EQ(Schedule({.decay = decay, .rate = 0, .steps = 5}).rate(4), 0);
  }
  EXPECT_EQ(Schedule({.decay = Decay::linear, .rate = 2, .steps = 2, .floor = 0}).rate(1), 0);
  EXPECT_EQ(Schedule({.decay = Decay::cosine, .rate = 2, .steps = 2, .floor = 1}).rate(1), 2);
}

TEST(Schedule, RefusesValuesOutOfRange) {
  const auto refused = [](auto change) {
    ScheduleOptions options = {.steps = 10, .warmup = 2};
    change(options);
    return refusal([&] { const Schedule schedule(options); });
  };
  const std::string correct = "; fix: correct the value";
  EXPECT_EQ(refused([](auto& o) { o.steps = 0; }),
            "schedule: steps: expected at least 1, got 0" + correct);
  for (const int64_t warmup : {-1, 11})
    EXPECT_EQ(refused([&](auto& o) { o.warmup = warmup; }),
              "schedule: warm-up: expected 0 to 10 steps, those of the run, got " +
                  std::to_string(warmup) + "; fix: shorten the warm-up or lengthen the run");
  for (const double rate : {-1e-3, double{INFINITY}, std::nan("")})
    EXPECT_EQ(refused([&](auto& o) { o.rate = rate; }),
              "schedule: learning rate: expected a finite number of at least 0, got " +
                  std::to_string(rate) + correct);
  for (const double floor : {-0.1, 1.1, std::nan("")})
    EXPECT_EQ(refused([&](auto& o) { o.floor = floor; }),
              "schedule: floor: expected a part of the learning rate, 0 to 1, got " +
                  std::to_string(floor) + correct);
  EXPECT_EQ(refused([](auto&) {}), "nothing refused");
  const Schedule schedule({.steps = 10});
  for (const int64_t step : {-1, 10})
    EXPECT_EQ(
        refusal([&] { schedule.rate(step); }),
        "schedule: step: expected 0 to 9, got " + std::to_string(step) + "; fix: lengthen the run");
}

TEST(Schedule, KnowsItsNames) {
  EXPECT_EQ(decay("cosine"), Decay::cosine);
  EXPECT_EQ(decay("linear"), Decay::linear);
  EXPECT_EQ(decay("constant"), Decay::constant);
  for (const char* name : {"", "Cosine", "step"})
    EXPECT_EQ(refusal([&] { decay(name); }),
              "schedule: expected cosine, linear or constant, got '" + std::string(name) +
                  "'; fix: use one of these");
}

}  // namespace
}  // namespace coda::train

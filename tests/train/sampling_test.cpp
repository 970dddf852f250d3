// SPDX-License-Identifier: Apache-2.0
// Random numbers against published values, their state, and the sampling of tokens.
#include "train/sampling.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

namespace coda::train {
namespace {

constexpr float kInfinity = INFINITY;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing refused";
}

Random at(uint64_t seed, uint64_t stream, uint64_t counter) {
  return Random::restore("philox4x32-10 " + std::to_string(seed) + " " + std::to_string(stream) +
                         " " + std::to_string(counter));
}

TEST(Random, IsPhilox) {
  // The first two words of the known answers of the authors' Random123, kat_vectors.
  EXPECT_EQ(Random(0).next(), 0xe169c58d6627e8d5u);
  EXPECT_EQ(at(~0ull, ~0ull, ~0ull).next(), 0x41c83b0e408f276du);
  EXPECT_EQ(at(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88).next(),
            0x94fdccebd16cfe09u);
}

TEST(Random, IsRestoredBitForBit) {
  Random random(42, "layers.0.weight");
  std::vector<float> values(1001);
  random.normal(values, 0, 1);
  random.uniform();
  const std::string state = random.state();
  Random again = Random::restore(state);
  EXPECT_EQ(again.state(), state);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(again.next(), random.next());
  std::vector<float> more(values.size());
  random.normal(values, 0, 1);
  again.normal(more, 0, 1);
  EXPECT_EQ(std::memcmp(values.data(), more.data(), values.size() * sizeof(float)), 0);
}

TEST(Random, HasStreamsByName) {
  std::set<uint64_t> first;
  for (const char* name : {"", "a", "b", "ab", "ba"})
    for (uint64_t seed = 0; seed < 10; ++seed) first.insert(Random(seed, name).next());
  EXPECT_EQ(first.size(), 50u);
  EXPECT_EQ(Random(3, "a").next(), Random(3, "a").next());
}

TEST(Random, RefusesAnyOtherState) {
  for (const char* state :
       {"", "philox4x32-10", "philox4x32-10 1 2", "philox4x32-10 1 2 3 ", "philox4x32-10 1 2 3 4",
        "philox4x32-10 1 2 -3", "philox4x32-10  1 2 3", "philox4x32-10 1 2 03", "mt19937 1 2 3",
        "philox4x32-10 1 2 18446744073709551616", "philox4x32-10 1 2 x"})
    EXPECT_EQ(
        refusal([&] { Random::restore(state); }),
        "state of random numbers: expected philox4x32-10 and three integers below 2^64, got '" +
            std::string(state) + "'; fix: use the state that was saved");
}

TEST(Random, UniformIsUniform) {
  Random random(5);
  constexpr int draws = 100000, bins = 50;
  constexpr double expected = 2000;  // in each bin
  int hits[bins] = {};
  double sum = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = random.uniform();
    ASSERT_TRUE(x >= 0 && x < 1);
    sum += x;
    ++hits[static_cast<int>(x * bins)];
  }
  EXPECT_NEAR(sum / draws, 0.5, 5 / std::sqrt(12.0 * draws));
  double chi = 0;
  for (const int n : hits) chi += std::pow(n - expected, 2) / expected;
  EXPECT_LT(chi, 110);  // mean 49, standard deviation 10
}

TEST(Random, NormalIsNormal) {
  constexpr double mean = 0.5, std = 0.02;
  std::vector<float> values(300007);
  Random(6).normal(values, mean, std);
  double sum = 0, square = 0, fourth = 0;
  int within = 0;
  for (const float value : values) {
    const double z = (value - mean) / std;
    ASSERT_TRUE(std::abs(z) < 7);
    sum += z, square += z * z, fourth += z * z * z * z;
    within += std::abs(z) < 1;
  }
  const auto n = static_cast<double>(values.size());
  // Five standard deviations of each estimate.
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(within / n, 0.6826894921, 5 * std::sqrt(0.22 / n));
  // Neighbours, and the two of one pair, have nothing in common.
  for (const size_t lag : {1, 2, 64, 128}) {
    double product = 0;
    for (size_t i = lag; i < values.size(); ++i)
      product += (values[i] - mean) * (values[i - lag] - mean) / (std * std);
    EXPECT_NEAR(product / n, 0, 5 / std::sqrt(n)) << lag;
  }
}

TEST(Random, NormalFillsAnySizeAndNothingBeyond) {
  std::vector<float> all(777);
  Random(7).normal(all, 1, 2);
  for (const size_t count : {0, 1, 2, 255, 256, 257, 511}) {
    std::vector<float> values(count + 1, NAN);
    Random(7).normal(std::span(values).first(count), 1, 2);
    EXPECT_TRUE(std::equal(values.begin(), values.end() - 1, all.begin())) << count;
    EXPECT_TRUE(std::isnan(values.back()));
  }
  std::vector<float> same(5, NAN);
  Random(7).normal(same, 3, 0);
  EXPECT_EQ(same, std::vector<float>(5, 3));
  EXPECT_EQ(refusal([&] { Random(7).normal(same, 0, -1); }),
            "normal numbers: std: expected a finite number of at least 0, got -1.000000; fix: "
            "correct the value");
  EXPECT_EQ(refusal([&] { Random(7).normal(same, NAN, 1); }),
            "normal numbers: mean: expected a finite number, got nan; fix: correct the value");
}

/// How often each token is drawn.
std::map<int64_t, int> counts(const std::vector<float>& logits, const SamplingOptions& options,
                              int draws) {
  Random random(11);
  std::map<int64_t, int> result;
  for (int i = 0; i < draws; ++i) ++result[sample(logits, options, random)];
  return result;
}

TEST(Sampling, GreedyTakesTheFirstOfTheLargest) {
  Random random(1);
  const std::string state = random.state();
  EXPECT_EQ(sample(std::vector<float>{-3, 2.5f, 1, 2.5f, -kInfinity}, {.temperature = 0}, random),
            1);
  EXPECT_EQ(sample(std::vector<float>{-7}, {.temperature = 0}, random), 0);
  EXPECT_EQ(sample(std::vector<float>{0.0f, -0.0f}, {.temperature = 0}, random), 0);
  EXPECT_EQ(random.state(), state);
  // What is nearly 0 is no other case.
  for (const double temperature : {1e-3, 1e-300, 5e-324})
    EXPECT_EQ(sample(std::vector<float>{1, 2, 3, 2}, {.temperature = temperature}, random), 2);
}

TEST(Sampling, FollowsTheSoftmax) {
  const std::vector<float> logits = {0.3f, -1.2f, 88.0f, -kInfinity, 87.1f, 86.5f, 88.0f};
  constexpr int draws = 40000;
  for (const double temperature : {0.5, 1.0, 3.0, 30.0}) {
    std::vector<double> expected;
    double total = 0;
    for (const float logit : logits) {
      expected.push_back(std::exp((double{logit} - 88) / temperature));
      total += expected.back();
    }
    auto drawn = counts(logits, {.temperature = temperature}, draws);
    EXPECT_EQ(drawn.count(3), 0u);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = expected[i] / total;
      EXPECT_NEAR(drawn[static_cast<int64_t>(i)], p * draws, 5 * std::sqrt(draws * p * (1 - p)) + 1)
          << "token " << i << ", temperature " << temperature;
    }
  }
}

TEST(Sampling, KeepsTheNucleus) {
  // Probabilities 0.1, 0.4, 0.1, 0.3, 0.1.
  std::vector<float> logits;
  for (const double p : {0.1, 0.4, 0.1, 0.3, 0.1})
    logits.push_back(static_cast<float>(std::log(p)));
  const auto kept = [&](double top_p) {
    std::vector<int64_t> result;
    for (const auto& [token, count] : counts(logits, {.top_p = top_p}, 3000))
      result.push_back(token);
    return result;
  };
  EXPECT_EQ(kept(1e-9), (std::vector<int64_t>{1}));
  EXPECT_EQ(kept(0.39), (std::vector<int64_t>{1}));
  EXPECT_EQ(kept(0.41), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(kept(0.69), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(kept(0.71), (std::vector<int64_t>{0, 1, 3}));  // of three equal ones the first
  EXPECT_EQ(kept(0.85), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept(1), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  // Within the nucleus, probabilities keep their proportion.
  auto drawn = counts(logits, {.top_p = 0.5}, 7000);
  EXPECT_NEAR(drawn[1], 4000, 5 * std::sqrt(7000 * 12 / 49.0));
}

TEST(Sampling, IsDeterministic) {
  Random logits_of(3), random(4);
  std::vector<float> logits(50257);
  logits_of.normal(logits, 0, 1);
  Random again = Random::restore(random.state());
  std::set<int64_t> tokens;
  for (int i = 0; i < 50; ++i) {
    const SamplingOptions options = {.temperature = 0.8, .top_p = i % 2 == 0 ? 1.0 : 0.9};
    const int64_t token = sample(logits, options, random);
    EXPECT_EQ(token, sample(logits, options, again));
    tokens.insert(token);
  }
  EXPECT_GT(tokens.size(), 30u);
}

TEST(Sampling, RefusesRowsAndOptions) {
  Random random(1);
  const auto refused = [&](const std::vector<float>& logits, const SamplingOptions& options = {}) {
    return refusal([&] { sample(logits, options, random); });
  };
  const std::string diverged = "; fix: check the model's weights: its training may have diverged";
  for (const double temperature : {0.0, 1.0}) {
    const SamplingOptions options = {.temperature = temperature};
    EXPECT_EQ(refused({1, NAN, NAN}, options),
              "sampling: logit 1: expected a number below infinity, got NaN" + diverged);
    EXPECT_EQ(refused({1, 2, kInfinity}, options),
              "sampling: logit 2: expected a number below infinity, got infinity" + diverged);
    EXPECT_EQ(refused({}, options),
              "sampling: logits: expected at least one, got none; fix: pass a row of logits");
    EXPECT_EQ(refused({-kInfinity, -kInfinity}, options),
              "sampling: logits: expected a token that can be drawn, got minus infinity for every "
              "token; fix: leave one token unmasked");
  }
  for (const double temperature : {-1.0, double{INFINITY}, std::nan("")})
    EXPECT_EQ(refused({1, 2}, {.temperature = temperature}),
              "sampling: temperature: expected a finite number of at least 0, got " +
                  std::to_string(temperature) +
                  "; fix: correct the value; 0 takes the most probable token");
  for (const double top_p : {0.0, -0.5, 1.5, std::nan("")})
    EXPECT_EQ(refused({1, 2}, {.top_p = top_p}),
              "sampling: top-p: expected above 0 and at most 1, got " + std::to_string(top_p) +
                  "; fix: correct the value; 1 keeps every token");
}

}  // namespace
}  // namespace coda::train

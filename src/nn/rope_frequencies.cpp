// SPDX-License-Identifier: Apache-2.0
//
// Where the formulas are from:
//   theta^(-2j/d)  RoFormer, arXiv 2104.09864, section 3.2.2
//   linear         positions divided by a factor, arXiv 2306.15595
//   llama3         the reference code of LLaMA 3.1, apply_scaling
//   yarn           arXiv 2309.00071, section 3.2 ("NTK-by-parts"), with the rounded range of its
//                  reference code; corner cases as in transformers, modeling_rope_utils.py
#include "nn/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coda::nn {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// Long wavelengths are stretched, short ones kept, those between go from one to the other.
double llama3(const Rope& rope, double frequency) {
  const auto original = static_cast<double>(rope.original_positions);
  const double wavelength = kTurn / frequency;
  if (wavelength < original / rope.high_frequency_factor) return frequency;
  if (wavelength > original / rope.low_frequency_factor) return frequency / rope.factor;
  const double kept = (original / wavelength - rope.low_frequency_factor) /
                      (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

/// Of pair j the part 1 - ramp(j) is kept and the part ramp(j) stretched, where the ramp goes from
/// 0 to 1 between the pairs that make beta_fast and beta_slow turns in the original length.
class YarnRamp {
 public:
  YarnRamp(const Rope& rope, double head_size) {
    const auto pair_of = [&](double turns) {
      const double length = static_cast<double>(rope.original_positions) / (turns * kTurn);
      return head_size * std::log(length) / (2 * std::log(rope.theta));
    };
    low_ = pair_of(rope.beta_fast);
    high_ = pair_of(rope.beta_slow);
    if (rope.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, head_size - 1);
    if (low_ == high_) high_ += 0.001;  // a step
  }

  double operator()(double pair) const {
    return std::clamp((pair - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

}  // namespace

std::vector<double> rope_frequencies(const Rope& rope, int64_t head_size) {
  std::vector<double> frequencies;
  const auto size = static_cast<double>(head_size);
  for (int64_t j = 0; j < head_size / 2; ++j)
    frequencies.push_back(std::pow(rope.theta, -2 * static_cast<double>(j) / size));
  switch (rope.scaling) {
    case Rope::Scaling::none:
      break;
    case Rope::Scaling::linear:
      for (double& frequency : frequencies) frequency /= rope.factor;
      break;
    case Rope::Scaling::llama3:
      for (double& frequency : frequencies) frequency = llama3(rope, frequency);
      break;
    case Rope::Scaling::yarn: {
      const YarnRamp ramp(rope, size);
      for (size_t j = 0; j < frequencies.size(); ++j) {
        const double stretched = ramp(static_cast<double>(j));
        frequencies[j] *= stretched / rope.factor + (1 - stretched);
      }
      break;
    }
  }
  return frequencies;
}

}  // namespace coda::nn

// SPDX-License-Identifier: Apache-2.0
#include "train/sampling.h"

#include <coda/error.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace coda::train {
namespace {

[[noreturn]] void refuse(std::string_view where, std::string_view expected, std::string_view got,
                         std::string_view fix, ErrorKind kind = ErrorKind::argument) {
  throw Error(kind, where, expected, got, fix);
}

/// The index of the largest logit, the first of equal ones.
size_t largest(std::span<const float> logits) {
  if (logits.empty()) refuse("sampling: logits", "at least one", "none", "pass a row of logits");
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      refuse("sampling: logit " + std::to_string(i), "a number below infinity",
             std::isnan(logits[i]) ? "NaN" : "infinity",
             "check the model's weights: its training may have diverged", ErrorKind::check);
  const auto found = std::max_element(logits.begin(), logits.end());
  if (*found == -INFINITY)
    refuse("sampling: logits", "a token that can be drawn", "minus infinity for every token",
           "leave one token unmasked");
  return static_cast<size_t>(found - logits.begin());
}

/// A token and its probability times a factor that all tokens share.
struct Candidate {
  double weight;
  size_t index;
};

bool less_probable(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight < b.weight : a.index > b.index;
}

double total_of(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

/// Leaves the fewest of the most probable tokens that together reach `top_p`, most probable first.
/// A heap: the rest, nearly all of a vocabulary, need no sorting.
void keep_nucleus(std::vector<Candidate>& candidates, double top_p) {
  const double enough = top_p * total_of(candidates);
  std::make_heap(candidates.begin(), candidates.end(), less_probable);
  std::vector<Candidate> kept;
  double reached = 0;
  while (!candidates.empty() && (kept.empty() || reached < enough)) {
    std::pop_heap(candidates.begin(), candidates.end(), less_probable);
    kept.push_back(candidates.back());
    candidates.pop_back();
    reached += kept.back().weight;
  }
  candidates = std::move(kept);
}

}  // namespace

void check(const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0)
    refuse("sampling: temperature", "a finite number of at least 0",
           std::to_string(options.temperature),
           "correct the value; 0 takes the most probable token");
  if (!(options.top_p > 0 && options.top_p <= 1))
    refuse("sampling: top-p", "above 0 and at most 1", std::to_string(options.top_p),
           "correct the value; 1 keeps every token");
}

int64_t sample(std::span<const float> logits, const SamplingOptions& options, Random& random) {
  check(options);
  const size_t best = largest(logits);
  if (options.temperature == 0) return static_cast<int64_t>(best);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double above = static_cast<double>(logits[i]) - static_cast<double>(logits[best]);
    const double weight = std::exp(above / options.temperature);
    if (weight > 0) candidates.push_back({weight, i});
  }
  if (options.top_p < 1) keep_nucleus(candidates, options.top_p);
  double left = random.uniform() * total_of(candidates);
  for (const Candidate& candidate : candidates) {
    if (left < candidate.weight) return static_cast<int64_t>(candidate.index);
    left -= candidate.weight;
  }
  // Rounding alone leads here.
  return static_cast<int64_t>(candidates.back().index);
}

}  // namespace coda::train

// SPDX-License-Identifier: Apache-2.0
// Attention in float64, written down as its formulas are, and how far a computation in float32 may
// be from it: every sum of n terms is off by at most n eps times the sum of their magnitudes, every
// function by a few eps, to first order, and a store by half an ulp of its type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "coda/dtype.h"

namespace coda::test {

struct AttentionShape {
  int64_t query_heads, key_heads, head_size;
  std::vector<int64_t> ends;  // cumulative lengths, {0, M} for one sequence
  int64_t window = 0;
  double softcap = 0, scale = 1;
  int64_t tokens() const { return ends.back(); }
  int64_t query_width() const { return query_heads * head_size; }
  int64_t width() const { return (query_heads + 2 * key_heads) * head_size; }
  int64_t key_column(int64_t head) const {
    return (query_heads + head / (query_heads / key_heads)) * head_size;
  }
  int64_t value_column(int64_t head) const { return key_column(head) + key_heads * head_size; }
};

inline constexpr double kEps = 0x1p-24;

/// Half an ulp of a result near `value`.
inline double rounding(DType type, double value) {
  const double part = type == DType::f32 ? 0x1p-24 : type == DType::bf16 ? 0x1p-8 : 0x1p-11;
  return std::abs(value) * part + (type == DType::f16 ? 0x1p-25 : 0x1p-126);
}

/// Packed row-major values and how far each may be off before it is rounded.
struct Bounded {
  std::vector<double> value, error;
  explicit Bounded(int64_t size = 0)
      : value(static_cast<size_t>(size)), error(static_cast<size_t>(size)) {}
};

/// One score: its value after scale and softcap, its bound, and d score / d (q . k).
struct Score {
  double value, error, slope, slope_error;
};

inline Score score_of(const AttentionShape& s, const double* q, const double* k) {
  double dot = 0, magnitude = 0;
  for (int64_t d = 0; d < s.head_size; ++d) dot += q[d] * k[d], magnitude += std::abs(q[d] * k[d]);
  const double scale = std::abs(s.scale);
  const double error = scale * magnitude * kEps * static_cast<double>(s.head_size + 3);
  if (s.softcap == 0) return {dot * s.scale, error, s.scale, kEps * scale};
  const double t = std::tanh(dot * s.scale / s.softcap);
  return {s.softcap * t, error + 4 * kEps * s.softcap, s.scale * (1 - t * t),
          scale * (2 * error / s.softcap + 8 * kEps)};
}

/// visit(sequence begin of i, first key, i) for all tokens.
template <class Visit>
void for_queries(const AttentionShape& s, const Visit& visit) {
  for (size_t sequence = 0; sequence + 1 < s.ends.size(); ++sequence)
    for (int64_t i = s.ends[sequence]; i < s.ends[sequence + 1]; ++i)
      visit(i, s.window > 0 ? std::max(s.ends[sequence], i - s.window + 1) : s.ends[sequence]);
}

struct AttentionResult {
  Bounded y, lse;
};

inline AttentionResult attention_reference(const AttentionShape& s,
                                           const std::vector<double>& qkv) {
  AttentionResult result{Bounded(s.tokens() * s.query_width()),
                         Bounded(s.tokens() * s.query_heads)};
  const auto row = [&](int64_t i) { return qkv.data() + i * s.width(); };
  for_queries(s, [&](int64_t i, int64_t first) {
    for (int64_t h = 0; h < s.query_heads; ++h) {
      std::vector<Score> scores;
      double top = -HUGE_VAL, sum = 0, off = 0;
      for (int64_t j = first; j <= i; ++j) {
        scores.push_back(score_of(s, row(i) + h * s.head_size, row(j) + s.key_column(h)));
        top = std::max(top, scores.back().value);
      }
      for (const Score& score : scores) {
        sum += std::exp(score.value - top);
        off = std::max(off, score.error + 2 * kEps * (std::abs(score.value) + std::abs(top) + 2));
      }
      const auto n = static_cast<double>(scores.size());
      const double lse = top + std::log(sum);
      const auto at = static_cast<size_t>(i * s.query_heads + h);
      result.lse.value[at] = lse;
      result.lse.error[at] = off + kEps * (n + 4 + 2 * std::abs(lse) + std::abs(top));
      for (int64_t d = 0; d < s.head_size; ++d) {
        double y = 0, magnitude = 0;
        for (int64_t j = first; j <= i; ++j) {
          const double p = std::exp(scores[static_cast<size_t>(j - first)].value - lse);
          const double v = row(j)[s.value_column(h) + d];
          y += p * v, magnitude += p * std::abs(v);
        }
        const auto place = static_cast<size_t>(i * s.query_width() + h * s.head_size + d);
        result.y.value[place] = y;
        result.y.error[place] = magnitude * (2 * off + (2 * n + 8) * kEps);
      }
    }
  });
  return result;
}

/// The gradient from given y and lse, which may be rounded; exact ones give the exact gradient.
inline Bounded attention_gradient_reference(const AttentionShape& s, const std::vector<double>& qkv,
                                            const std::vector<double>& y,
                                            const std::vector<double>& lse,
                                            const std::vector<double>& dy) {
  Bounded result(s.tokens() * s.width());
  std::vector<double> terms(result.value.size()), count(result.value.size());
  const auto size = static_cast<double>(s.head_size);
  const auto add = [&](int64_t place, double factor, double factor_error, double value) {
    const auto at = static_cast<size_t>(place);
    result.value[at] += factor * value;
    result.error[at] += factor_error * std::abs(value);
    terms[at] += std::abs(factor * value);
    count[at] += 1;
  };
  for_queries(s, [&](int64_t i, int64_t first) {
    for (int64_t h = 0; h < s.query_heads; ++h) {
      const int64_t query = i * s.width() + h * s.head_size;
      const int64_t out = i * s.query_width() + h * s.head_size;
      double delta = 0, delta_terms = 0;
      for (int64_t d = 0; d < s.head_size; ++d) {
        delta += dy[out + d] * y[out + d];
        delta_terms += std::abs(dy[out + d] * y[out + d]);
      }
      const double log_sum = lse[static_cast<size_t>(i * s.query_heads + h)];
      for (int64_t j = first; j <= i; ++j) {
        const int64_t key = j * s.width() + s.key_column(h);
        const int64_t value = j * s.width() + s.value_column(h);
        const Score score = score_of(s, qkv.data() + query, qkv.data() + key);
        const double p = std::exp(score.value - log_sum);
        const double p_error =
            p * (score.error + kEps * (4 + 2 * std::abs(score.value) + 2 * std::abs(log_sum)));
        double dp = 0, dp_terms = 0;
        for (int64_t d = 0; d < s.head_size; ++d) {
          dp += dy[out + d] * qkv[value + d];
          dp_terms += std::abs(dy[out + d] * qkv[value + d]);
        }
        const double difference = std::abs(dp - delta), slope = std::abs(score.slope);
        const double ds = p * (dp - delta) * score.slope;
        const double ds_error = p_error * difference * slope + p * difference * score.slope_error +
                                p * slope * kEps * (size + 2) * (dp_terms + delta_terms) +
                                4 * kEps * std::abs(ds);
        for (int64_t d = 0; d < s.head_size; ++d) {
          add(query + d, ds, ds_error, qkv[key + d]);
          add(key + d, ds, ds_error, qkv[query + d]);
          add(value + d, p, p_error, dy[out + d]);
        }
      }
    }
  });
  for (size_t at = 0; at < terms.size(); ++at)
    result.error[at] += kEps * (count[at] + 4) * terms[at];
  return result;
}

}  // namespace coda::test

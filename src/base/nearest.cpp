// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace coda {
namespace {

/// Insertions, deletions, replacements and exchanges of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({above[j] + (a[i] != b[j]), row[j] + 1, above[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::min(name.size(), std::max<size_t>(1, name.size() / 4) + 1);
  for (std::string_view candidate : known) {
    if (name.empty() || candidate.empty() || candidate[0] != name[0]) continue;
    const size_t longer = std::max(candidate.size(), name.size());
    if (longer - std::min(candidate.size(), name.size()) >= best_distance)
      continue;  // a length apart already says more edits
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view best = nearest(name, known);
  if (!best.empty()) return "did you mean '" + std::string(best) + "'?";
  if (known.empty()) return "there are no names to choose from";
  constexpr size_t kShown = 60;
  std::string text = "the names are ";
  for (size_t i = 0; i < std::min(known.size(), kShown); ++i) {
    if (i) text += ", ";
    text += known[i];
  }
  if (known.size() > kShown) text += " and " + std::to_string(known.size() - kShown) + " more";
  return text;
}

}  // namespace coda

#include "base/likeness.h"

#include <algorithm>
#include <vector>

namespace unisono::base {

std::size_t distance(std::string_view one, std::string_view other) {
  // The distance between the first i letters of `one` and the first j of `other` is rows[i % 3][j].
  std::vector<std::size_t> rows[3];
  for (auto& row : rows) row.resize(other.size() + 1);
  for (std::size_t j = 0; j <= other.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= one.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& before = rows[(i + 2) % 3];
    const auto& before_that = rows[(i + 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
      if (swapped) row[j] = std::min(row[j], before_that[j - 2] + 1);
    }
  }
  return rows[one.size() % 3][other.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t least = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t most = std::max<std::size_t>(1, candidate.size() / 3);
    const std::size_t found = distance(word, candidate);
    // A word that shares no letter with the candidate is no misspelling of it.
    if (found > most || found >= candidate.size()) continue;
    if (best.empty() || found < least) {
      best = candidate;
      least = found;
    }
  }
  return best;
}

}  // namespace unisono::base

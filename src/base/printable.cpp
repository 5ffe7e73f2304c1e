#include "base/printable.h"

#include <algorithm>
#include <cstring>

namespace unisono::base {

std::size_t character_at(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty() || byte(0) < ' ' || byte(0) == 0x7f) return 0;
  const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) >> 5 == 0x6 ? 2 : byte(0) >> 4 == 0xE ? 3 : byte(0) >> 3 == 0x1E ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6 != 0x2) return 0;
  }
  constexpr unsigned char first_of_controls = 0xC2, behind_controls = 0xA0;  // U+0080 to U+009F, which terminals take for controls as well
  return size == 2 && byte(0) <= first_of_controls && byte(1) < behind_controls ? 0 : size;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_at(text);
    if (size != 0) result += text.substr(0, size);
    else result += text[0] == '\n' || text[0] == '\t' ? ' ' : '?';
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

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

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string name_rank(int rank, int world_rank) {
  std::string text = "rank " + std::to_string(rank);
  if (world_rank >= 0 && world_rank != rank) text += " (" + std::to_string(world_rank) + " in the world)";
  return text;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace unisono::base

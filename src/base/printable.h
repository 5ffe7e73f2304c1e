#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace unisono::base {

/// Reads a decimal whole number; nothing if the text is anything else, or the number does not fit.
template <std::integral T>
std::optional<T> whole_number(std::string_view text) {
  T value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Returns the bytes of the character of UTF-8 that the text begins with; 0 where it begins with none, or with a control character.
std::size_t character_at(std::string_view text) noexcept;
/// Returns a text that somebody else has written, for a terminal or a log: in one line, with '?' in the place of each control character (escape
/// sequences begin with one) and of each byte that is not UTF-8.
std::string printable(std::string_view text);

/// Returns how many letters must be inserted, removed, replaced or swapped with their neighbour to turn one word into the other (Damerau-Levenshtein,
/// without overlaps).
std::size_t distance(std::string_view one, std::string_view other);

/// Returns the candidate that `word` may be a misspelling of: the nearest one, at most a third of its letters away. Empty: none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// Names ascending rank numbers: "rank 3", "ranks 0, 2-4".
std::string name_ranks(const std::vector<int>& ranks);
/// Names a rank of a group: "rank 1", or "rank 1 (3 in the world)" where it has another number there. A negative number is not known.
std::string name_rank(int rank, int world_rank);

/// Returns "SIGKILL", or "signal 40" for a signal without a name.
std::string signal_name(int signal);

}  // namespace unisono::base

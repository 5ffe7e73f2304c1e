#pragma once

#include <span>
#include <string>
#include <string_view>

namespace unisono::base {

/// Returns how many letters must be inserted, removed, replaced or swapped with their neighbour to turn one word into the other (Damerau-Levenshtein,
/// without overlaps).
std::size_t distance(std::string_view one, std::string_view other);

/// Returns the candidate that `word` may be a misspelling of: the nearest one, at most a third of its letters away. Empty: none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace unisono::base

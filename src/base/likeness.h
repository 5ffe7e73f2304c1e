#pragma once

#include <span>
#include <string>
#include <string_view>

namespace unisono::base {

/// How many letters have to be put in, left out, replaced or swapped with their neighbour to turn one word into the other.
std::size_t distance(std::string_view one, std::string_view other);

/// The candidate that somebody who typed `word` may have meant: the nearest one, at most a third of its letters away. Empty: none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace unisono::base

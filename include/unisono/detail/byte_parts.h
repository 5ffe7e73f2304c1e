#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "unisono/counts.h"

namespace unisono::detail {

/// The bytes of several ranks, one rank behind the other.
struct ByteParts {
  std::vector<std::byte> memory;
  Counts sizes;
  /// Returns the number of ranks.
  std::size_t size() const { return sizes.size(); }
  /// Returns the bytes of a rank.
  std::span<const std::byte> operator[](std::size_t rank) const { return std::span(memory).subspan(sizes.before(rank), sizes[rank]); }
};

}  // namespace unisono::detail

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "unisono/tensor.h"

// The memory that views touch. Every call goes through this, so it is inlined: a call of a few bytes takes some hundred instructions in all.

namespace unisono::group {

/// Returns the first byte that a view can touch, and the end of the last.
[[gnu::always_inline]] inline std::pair<const std::byte*, const std::byte*> reach(const TensorView& tensor) {
  const auto* base = static_cast<const std::byte*>(tensor.data());
  if (tensor.is_contiguous()) [[likely]]
    return {base, base + tensor.bytes()};  // an empty view is contiguous, too
  std::int64_t low = 0, high = 0;
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    const std::int64_t span = (tensor.shape()[d] - 1) * tensor.strides()[d];
    (span < 0 ? low : high) += span;
  }
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  return {base + low * size, base + (high + 1) * size};
}

/// Returns true where two views may touch the same byte.
[[gnu::always_inline]] inline bool overlap(const TensorView& a, const TensorView& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_low, a_high] = reach(a);
  const auto [b_low, b_high] = reach(b);
  return std::less<>{}(a_low, b_high) && std::less<>{}(b_low, a_high);
}

/// Returns true where several elements of the view are in one place, so that nothing can be written to it.
inline bool repeats(const TensorView& tensor) {
  if (tensor.is_contiguous()) [[likely]]
    return false;
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    if (tensor.shape()[d] > 1 && tensor.strides()[d] == 0) return true;
  }
  return false;
}

[[gnu::always_inline]] inline bool same_view(const TensorView& a, const TensorView& b) {
  return a.data() == b.data() && std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides());
}

}  // namespace unisono::group

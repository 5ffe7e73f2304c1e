#include "unisono/detail/dense_view.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "unisono/error.h"

namespace unisono::detail {
namespace {

using Extents = std::vector<std::int64_t>;

/// Tells whether the dimensions, in this order, lie without gaps: the last one has a stride of 1, and each other one that of all behind it together.
bool are_dense(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides, std::span<const std::size_t> order) {
  std::int64_t expected = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t extent = extents[order[i]];
    if (extent != 1 && strides[order[i]] != expected) return false;
    expected *= extent;
  }
  return true;
}

std::string list(std::span<const std::int64_t> numbers) {
  std::string text = "{";
  for (const std::int64_t n : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "}";
}

}  // namespace

TensorView dense_view(void* data, DType dtype, std::span<const std::int64_t> extents, std::span<const std::int64_t> strides, std::string_view type,
                      Device device) {
  // Row by row first, then column by column: a dimension of extent 1 keeps its place in both.
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool is_empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  if (!is_empty && !are_dense(extents, strides, order)) {
    std::reverse(order.begin(), order.end());
    if (!are_dense(extents, strides, order)) {
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
      std::erase_if(order, [&](std::size_t d) { return extents[d] == 1; });
    }
    if (!are_dense(extents, strides, order)) {
      throw InvalidArgument(std::string(type) + " of " + list(extents) + " elements with strides of " + list(strides) + " is not contiguous",
                            {.hint = "copy it to memory without gaps, or make a TensorView with these strides, which the library packs"});
    }
  }
  Extents shape;
  for (const std::size_t d : order) shape.push_back(extents[d]);
  return {data, dtype, shape, {}, device};
}

}  // namespace unisono::detail

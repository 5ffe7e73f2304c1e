#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/tensor.h"

namespace unisono::detail {

/// A range of buffers, as std::vector<std::vector<float>> and std::vector<TensorView> are, that is
/// no buffer itself.
template <class L>
concept in_list =
    !has_view<L> && std::ranges::forward_range<std::remove_cvref_t<L>&> && has_view<std::ranges::range_reference_t<std::remove_cvref_t<L>&>>;

/// A list whose buffers can be written to.
template <class L>
concept out_list = in_list<L> && Buffer < std::ranges::range_reference_t < std::remove_reference_t<L>
& >> ;

/// The element type of the list's buffers if the compiler knows it, void if only they know it.
template <in_list L>
using list_element_t = element_type_t<std::ranges::range_reference_t<std::remove_cvref_t<L>&>>;

/// Returns views of the buffers, which are read.
template <in_list L>
std::vector<TensorView> views_of(L&& list) {
  std::vector<TensorView> views;
  for (auto&& buffer : list) views.push_back(view_of(buffer));
  return views;
}

/// Returns views of the buffers, which are written to.
template <out_list L>
std::vector<TensorView> writable_views_of(L&& list) {
  std::vector<TensorView> views;
  for (auto&& buffer : list) views.push_back(writable_view_of(buffer));
  return views;
}

}  // namespace unisono::detail

#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

// From the typed arguments of a call to its request: the part that the headers of the collectives
// have in common.

namespace unisono::detail {

/// A range of buffers, as std::vector<std::vector<float>> and std::vector<TensorView> are, that is not
/// a buffer itself.
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

template <class T>
inline constexpr bool is_growable = false;
template <class T, class A>
inline constexpr bool is_growable<std::vector<T, A>> = Element<T> && !std::same_as<T, bool>;

/// A vector of elements that a call may resize.
template <class T>
concept Growable = is_growable<T>;

/// The operations that fit the elements of a buffer.
template <class B>
using reduction_for = Reduction<element_type_t<B>>;

/// Makes the request of an operation that reads and writes one buffer.
template <class B>
Request in_place(Operation operation, B& x) {
  const TensorView view = writable_view_of(x);
  return {operation, view, view};
}

/// Makes the request of a reduction that reads and writes one buffer.
template <class B, class R>
Request in_place(Operation operation, B& x, const R& op) {
  const TensorView view = writable_view_of(x);
  return {operation, view, view, op.op(), op.custom(), op.factor()};
}

/// Makes the request of an operation that reads one buffer and writes another.
template <class In, class B>
Request out_of_place(Operation operation, const In& in, B& out) {
  return {operation, view_of(in), writable_view_of(out)};
}

/// Makes the request of a reduction that reads one buffer and writes another.
template <class In, class B, class R>
Request out_of_place(Operation operation, const In& in, B& out, const R& op) {
  return {operation, view_of(in), writable_view_of(out), op.op(), op.custom(), op.factor()};
}

/// Gives a request a root and returns it. It is not moved: a move takes some 70 instructions.
inline Request&& rooted(Request&& request, Rank root) {
  request.root = root;
  return std::move(request);
}

/// Returns a view of a single element.
template <class T>
TensorView view_of_value(T& x) {
  return {&x, dtype_of<T>::value, std::size_t{1}};
}

/// The values of all ranks. It is not a std::vector, since the elements of a std::vector<bool> have no
/// addresses.
template <class T>
struct Values {
  explicit Values(std::size_t n) : elements(std::make_unique<T[]>(n)), size(n) {}
  TensorView view() { return {elements.get(), dtype_of<T>::value, size}; }
  std::vector<T> take() const { return std::vector<T>(elements.get(), elements.get() + size); }
  std::unique_ptr<T[]> elements;
  std::size_t size;
};

/// Tells whether the rank is this one.
UNISONO_API bool rank_is(Rank rank, const ProcessGroup& group);

template <class... Rest>
inline constexpr bool begins_with_buffer = false;

/// Tells whether the first of the arguments is a buffer or a list of buffers.
template <class First, class... Rest>
inline constexpr bool begins_with_buffer<First, Rest...> = has_view<First> || in_list<First>;

}  // namespace unisono::detail

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "unisono/detail/dense_view.h"
#include "unisono/tensor.h"

// std::mdspan is a buffer, and so are the mdspans of C++20 libraries that have its interface
// (Kokkos::mdspan, std::experimental::mdspan). This header includes none of them.
//
// ```cpp
// std::mdspan grid(memory.data(), rows, columns);
// all_reduce(grid);
// ```
//
// The elements travel in the order of the memory, which all ranks have in common: those of
// layout_left go column by column. They lie without gaps, whatever the layout; for others the call
// throws InvalidArgument, and nothing is copied. An mdspan is a handle: a temporary or constant one
// can be written to, unless its elements are constant.

namespace unisono {

namespace detail {

/// A type with the interface of std::mdspan.
template <class M>
concept mdspan_like = requires(const M& m) {
  typename M::element_type;
  typename M::layout_type;
  typename M::accessor_type;
  typename M::data_handle_type;
  M::rank();
  M::is_always_strided();
  m.extent(std::size_t{0});
  m.data_handle();
  m.mapping();
};

}  // namespace detail

/// Makes an mdspan a buffer.
template <detail::mdspan_like M>
requires Element<typename M::element_type>
struct buffer_traits<M> {
  static constexpr bool is_handle = true;
  /// Returns a view. InvalidArgument for elements with gaps between them.
  static TensorView view(const M& m) {
    using T = typename M::element_type;
    static_assert(std::is_same_v<typename M::data_handle_type, T*>,
                  "unisono: this mdspan has an accessor of its own; only one whose data handle is a pointer to the elements is a buffer");
    static_assert(M::is_always_strided(), "unisono: this mdspan's layout has no strides; a buffer has");
    std::array<std::int64_t, M::rank()> extents{}, strides{};
    for (std::size_t d = 0; d < M::rank(); ++d) {
      extents[d] = static_cast<std::int64_t>(m.extent(d));
      strides[d] = static_cast<std::int64_t>(m.mapping().stride(d));
    }
    return detail::dense_view(const_cast<std::remove_const_t<T>*>(m.data_handle()), dtype_of<std::remove_cv_t<T>>::value, extents, strides,
                              "an mdspan");
  }
};

namespace detail {
template <mdspan_like M>
inline constexpr bool writable_range<M> = !std::is_const_v<typename M::element_type>;
template <mdspan_like M>
struct element_type<M> {
  using type = std::remove_cv_t<typename M::element_type>;
};
}  // namespace detail

}  // namespace unisono

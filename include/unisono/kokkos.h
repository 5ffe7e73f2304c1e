#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "unisono/detail/dense_view.h"
#include "unisono/tensor.h"

// Kokkos::View is a buffer. This header includes nothing of Kokkos: the program does.
//
// ```cpp
// Kokkos::View<double**> field("field", rows, columns);
// Kokkos::fence();                                   // a kernel may still write to it
// unisono::all_reduce(field);
// ```
//
// The elements travel in the order of the memory, so all ranks have the same layout; they lie
// without gaps, else the call throws InvalidArgument (padding, strides, most subviews), and nothing
// is copied. Views of the host's memory and of CUDA devices are buffers; for others the call
// throws Unsupported. A View is a handle: a temporary or constant one can be written to, unless its
// elements are constant.

namespace unisono {

namespace detail {

/// A type with the interface of Kokkos::View.
template <class V>
concept kokkos_view = requires(const V& v) {
  typename V::value_type;
  typename V::array_layout;
  typename V::memory_space;
  typename V::memory_traits;
  static_cast<std::size_t>(V::rank);
  V::memory_space::name();
  v.data();
  v.extent(std::size_t{0});
  v.stride(std::size_t{0});
};

/// Returns the device of a view's memory, by the name of its Kokkos memory space.
///
/// @throws Unsupported for the memory of devices other than CUDA's
UNISONO_API Device device_of_kokkos(std::string_view memory_space, const void* data);

}  // namespace detail

/// Makes a Kokkos::View a buffer.
template <detail::kokkos_view V>
requires Element<typename V::value_type>
struct buffer_traits<V> {
  static constexpr bool is_handle = true;
  /// Returns a view. InvalidArgument for elements with gaps between them, Unsupported for memory
  /// that is neither the host's nor a CUDA device's.
  static TensorView view(const V& v) {
    using T = typename V::value_type;
    static_assert(std::is_same_v<decltype(v.data()), T*>, "unisono: this Kokkos::View's elements are not plain memory");
    constexpr auto rank = static_cast<std::size_t>(V::rank);
    std::array<std::int64_t, rank> extents{}, strides{};
    for (std::size_t d = 0; d < rank; ++d) {
      extents[d] = static_cast<std::int64_t>(v.extent(d));
      strides[d] = static_cast<std::int64_t>(v.stride(d));
    }
    auto* const data = const_cast<std::remove_cv_t<T>*>(v.data());
    return detail::dense_view(data, dtype_of<std::remove_cv_t<T>>::value, extents, strides, "a Kokkos::View",
                              detail::device_of_kokkos(V::memory_space::name(), data));
  }
};

namespace detail {
template <kokkos_view V>
inline constexpr bool writable_range<V> = !std::is_const_v<typename V::value_type>;
template <kokkos_view V>
struct element_type<V> {
  using type = std::remove_cv_t<typename V::value_type>;
};
}  // namespace detail

}  // namespace unisono

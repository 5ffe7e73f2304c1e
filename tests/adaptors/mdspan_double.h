#pragma once

#include <array>
#include <cstddef>

/// A double of std::mdspan for compilers without one: as much of its interface as a buffer takes, with run-time extents alone.
namespace mdspan_double {

template <std::size_t Rank>
using Extents = std::array<int, Rank>;

/// The mapping of a layout that has strides.
template <std::size_t Rank>
struct Strided {
  std::array<int, Rank> strides{};
  constexpr int stride(std::size_t d) const { return strides[d]; }
};

struct layout_right {
  static constexpr bool is_always_strided = true;
  template <std::size_t Rank>
  static constexpr Strided<Rank> mapping(const Extents<Rank>& extents) {
    Strided<Rank> mapping;
    int next = 1;
    for (std::size_t d = Rank; d-- > 0; next *= extents[d]) mapping.strides[d] = next;
    return mapping;
  }
};
struct layout_left {
  static constexpr bool is_always_strided = true;
  template <std::size_t Rank>
  static constexpr Strided<Rank> mapping(const Extents<Rank>& extents) {
    Strided<Rank> mapping;
    int next = 1;
    for (std::size_t d = 0; d < Rank; next *= extents[d++]) mapping.strides[d] = next;
    return mapping;
  }
};
struct layout_stride {
  static constexpr bool is_always_strided = true;
};
/// As of a space-filling curve.
struct layout_without_strides {
  static constexpr bool is_always_strided = false;
};

template <class T>
struct default_accessor {
  using data_handle_type = T*;
};
/// As of memory that is read through atomic operations.
template <class T>
struct handle_accessor {
  struct data_handle_type {
    T* data;
  };
};

template <class T, std::size_t Rank, class Layout = layout_right, class Accessor = default_accessor<T>>
class mdspan {
 public:
  using element_type = T;
  using layout_type = Layout;
  using accessor_type = Accessor;
  using data_handle_type = typename Accessor::data_handle_type;

  mdspan(data_handle_type data, const Extents<Rank>& extents) : data_(data), extents_(extents), mapping_(Layout::mapping(extents)) {}
  mdspan(data_handle_type data, const Extents<Rank>& extents, const Strided<Rank>& mapping) : data_(data), extents_(extents), mapping_(mapping) {}

  static constexpr std::size_t rank() { return Rank; }
  static constexpr bool is_always_strided() { return Layout::is_always_strided; }
  int extent(std::size_t d) const { return extents_[d]; }
  const data_handle_type& data_handle() const { return data_; }
  const Strided<Rank>& mapping() const { return mapping_; }

 private:
  data_handle_type data_;
  Extents<Rank> extents_;
  Strided<Rank> mapping_;
};

}  // namespace mdspan_double

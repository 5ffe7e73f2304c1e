#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

/// A double of Kokkos::View: as much of its interface as a buffer takes, over memory of the test's own.
namespace kokkos_double {

struct HostSpace {
  static constexpr const char* name() { return "Host"; }
};
struct CudaSpace {
  static constexpr const char* name() { return "Cuda"; }
};
struct HIPSpace {
  static constexpr const char* name() { return "HIP"; }
};
struct LayoutLeft {};
struct LayoutRight {};
struct LayoutStride {};
struct MemoryManaged {};

/// `DataType` as Kokkos has it: an asterisk for each dimension.
template <class DataType, class Layout = LayoutRight, class Space = HostSpace>
class View {
 public:
  using value_type =
      std::remove_pointer_t<std::conditional_t<std::is_pointer_v<std::remove_pointer_t<DataType>>, std::remove_pointer_t<DataType>, DataType>>;
  using array_layout = Layout;
  using memory_space = Space;
  using memory_traits = MemoryManaged;
  static constexpr std::integral_constant<std::size_t, std::is_pointer_v<std::remove_pointer_t<DataType>> ? 2 : 1> rank = {};
  using Numbers = std::array<std::size_t, rank()>;

  /// `gap`: elements between two lines, as padding makes them.
  View(value_type* data, const Numbers& extents, std::size_t gap = 0) : data_(data), extents_(extents) {
    std::size_t next = 1;
    for (std::size_t i = 0; i < rank(); ++i) {
      const std::size_t d = std::is_same_v<Layout, LayoutLeft> ? i : rank() - 1 - i;
      strides_[d] = next;
      next = next * extents[d] + gap;
    }
  }

  value_type* data() const { return data_; }
  std::size_t extent(std::size_t d) const { return extents_[d]; }
  std::size_t stride(std::size_t d) const { return strides_[d]; }

 private:
  value_type* data_;
  Numbers extents_, strides_{};
};

}  // namespace kokkos_double

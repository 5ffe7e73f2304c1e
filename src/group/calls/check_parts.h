#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "group/devices/device_streams.h"
#include "group/group_facts.h"
#include "unisono/tensor.h"

// Parts of the checks of calls (check.h). `name` is the call's name, for errors.

namespace unisono::group {

/// Throws InvalidArgument, as an error of the group's next call.
[[noreturn]] void wrong(const GroupFacts& group, std::string_view name, const std::string& what, const std::string& hint = {});

inline std::string elements(std::int64_t n) { return std::to_string(n) + (n == 1 ? " element" : " elements"); }

/// A view says where its memory lies, or leaves it open; then the runtime of the group's device knows. It is not asked again about the memory of
/// `located`, null or a view that this has dealt with.
inline void locate(const GroupFacts& group, TensorView& tensor, const TensorView* located = nullptr) {
  if (!group.device() || is_on_device(tensor) || tensor.numel() == 0) [[likely]]
    return;
  const bool is_known = located != nullptr && located->numel() > 0 && located->data() == tensor.data();
  const Device device = is_known ? located->device() : device_runtime()->device_of(tensor.data());
  if (device.type != Device::Type::cpu) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), tensor.strides(), device);
}

/// Throws InvalidArgument or Unsupported for memory of a device that calls of this group cannot be given. Each tensor of a list has a device of its
/// own; any other tensor lies on the group's device. Memory of a device that the group does not work on goes through the host, if it can be copied.
void check_on_device(const GroupFacts& group, std::string_view name, const TensorView& tensor, bool of_list);
[[gnu::always_inline]] inline void check_device(const GroupFacts& group, std::string_view name, const TensorView& tensor, bool of_list = false) {
  if (is_on_device(tensor)) [[unlikely]]
    check_on_device(group, name, tensor, of_list);
}

[[noreturn]] void throw_other_dtypes(const GroupFacts& group, std::string_view name, DType in, DType out);
inline void check_dtypes(const GroupFacts& group, std::string_view name, const TensorView& in, const TensorView& out) {
  if (in.dtype() != out.dtype()) [[unlikely]]
    throw_other_dtypes(group, name, in.dtype(), out.dtype());
}

}  // namespace unisono::group

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

/// Returns true where each element of one view is that of the other, whatever their shapes.
[[gnu::always_inline]] inline bool same_view(const TensorView& a, const TensorView& b) {
  if (a.data() != b.data() || a.numel() != b.numel() || a.is_contiguous() != b.is_contiguous()) return false;
  return a.is_contiguous() || (std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides()));
}

}  // namespace unisono::group

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "group/devices/device_streams.h"
#include "group/group_facts.h"

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

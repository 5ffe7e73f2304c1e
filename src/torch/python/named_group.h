#pragma once

#include <string>
#include <string_view>

#include "torch/python/process_group.h"

namespace unisono::libtorch {

/// The group that an operator names.
class NamedGroup {
 public:
  /// Finds the group by the name that torch.distributed gave it. "" and "world" name its default group; without one, all ranks of the library's own
  /// context. The newest group of a name counts. Throws InvalidArgument if there is none.
  static NamedGroup find(std::string_view name);
  /// Makes the group known by this name as long as it lives.
  static void add(const std::string& name, const c10::intrusive_ptr<ProcessGroupUnisono>& group);

  int size() const;
  /// Carries out the operation, whose tensors are on this device, and returns when it is done.
  void run(const detail::Request& request, const at::Device& device) const;

 private:
  explicit NamedGroup(c10::intrusive_ptr<ProcessGroupUnisono> group) : group_(std::move(group)) {}
  c10::intrusive_ptr<ProcessGroupUnisono> group_;  // null: the world of the library's own context
};

}  // namespace unisono::libtorch

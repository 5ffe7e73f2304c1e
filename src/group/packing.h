#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "unisono/backend.h"
#include "unisono/detail/request.h"

namespace unisono::group {

/// Gives a call contiguous memory where its views are strided, and carries the result back. Does nothing, and costs nothing, for contiguous views.
class Packing {
 public:
  static bool is_needed(const CollectiveCall& call, const detail::Around* around) {
    return around != nullptr || !call.in.is_contiguous() || !call.out.is_contiguous();
  }
  /// Replaces the strided views of the call, after the first half of what is around it, if anything is.
  Packing(CollectiveCall& call, detail::Around* around);
  /// Copies what has arrived to where the user wants it.
  void finish();

 private:
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::optional<Tensor> target_;
  const std::byte* result_ = nullptr;
  detail::Around* around_;
};

/// What is around a call: what its request says, and the product where this rank has a factor, which becomes the call's input. A device's engine
/// multiplies by itself.
std::shared_ptr<detail::Around> around_of(CollectiveCall& call, const detail::Request& request);

/// A task that packs first and unpacks when it is done.
std::unique_ptr<Task> packed_task(Backend& backend, const CollectiveCall& call, const std::shared_ptr<detail::Around>& around);
std::unique_ptr<Task> packed_task(Backend& backend, const MessageCall& call, bool sends);

}  // namespace unisono::group

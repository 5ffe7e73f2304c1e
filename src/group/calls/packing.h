#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "group/group_core.h"
#include "kernels/copy.h"
#include "kernels/pack.h"
#include "unisono/detail/request.h"
#include "unisono/tensor.h"

namespace unisono::group {

/// Starts a collective on contiguous memory of the host. A callable of the program's is compared by what it does where it has to be.
std::unique_ptr<Task> start_collective(GroupCore& core, const CollectiveCall& call);

/// Does the same for a caller that waits.
void run_callable(GroupCore& core, CollectiveCall& call, Waiter& waiter);

/// Gives a call contiguous memory where its views are strided, and carries the result back. Does nothing, and costs nothing, for contiguous views.
class Packing {
 public:
  static bool is_needed(const CollectiveCall& call, const detail::PrologueEpilogue* edges) {
    return edges != nullptr || !call.in.is_contiguous() || !call.out.is_contiguous();
  }
  /// Runs the prologue, if there is one, and then replaces the strided views of the call.
  Packing(CollectiveCall& call, detail::PrologueEpilogue* edges);
  /// Copies the result to the strided view that it is for, and runs the epilogue.
  void finish();

 private:
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::optional<TensorView> target_;
  const std::byte* result_ = nullptr;
  detail::PrologueEpilogue* edges_;
};

/// Takes the factor from a call on memory of the host: the product becomes the call's input, and the returned prologue computes it. Null where there
/// is no factor, or where a device's engine multiplies by itself.
std::shared_ptr<detail::PrologueEpilogue> product_of(CollectiveCall& call);

/// Makes a task on memory of the host that packs first and unpacks when it is done.
std::unique_ptr<Task> packed_task(GroupCore& core, const CollectiveCall& call, const std::shared_ptr<detail::PrologueEpilogue>& edges);
std::unique_ptr<Task> packed_task(GroupCore& core, const MessageCall& call, bool sends);

}  // namespace unisono::group

// Copies between buffers that may be strided and memory where their elements lie one behind the other.

namespace unisono::group {

inline void put(const TensorView& to, const std::byte* from) {
  if (to.is_contiguous()) kernels::copy(to.data(), from, to.bytes());
  else kernels::unpack(to, from);
}
inline void take(std::byte* to, const TensorView& from) {
  if (from.is_contiguous()) kernels::copy(to, from.data(), from.bytes());
  else kernels::pack(to, from);
}
inline void put_list(std::span<const TensorView> to, const std::byte* from) {
  for (const TensorView& tensor : to) {
    put(tensor, from);
    from += tensor.bytes();
  }
}
inline void take_list(std::byte* to, std::span<const TensorView> from) {
  for (const TensorView& tensor : from) {
    take(to, tensor);
    to += tensor.bytes();
  }
}

}  // namespace unisono::group

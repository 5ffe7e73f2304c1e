#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/standard.h"
#include "unisono/device_runtime.h"
#include "unisono/operation.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono {

/// The part of a call that only calls on device memory have.
struct DeviceCall {
  /// All tensors of a call with several on each rank, each on a device of its own; `in` and `out`
  /// of the call are then the first of them. Empty for any other call.
  std::vector<TensorView> ins = {}, outs = {};
  /// The text that CollectiveCall::also shows.
  std::string terms = {};
  /// The events on the device after which the call's memory may be used.
  std::vector<std::shared_ptr<DeviceEvent>> after = {};
  /// Of a blocking call, the stream that is the caller's current one, on the engine's device. The
  /// engine may put the operation there, behind what is on it, in place of a stream of its own.
  std::optional<void*> stream = {};
};

/// A collective as it reaches an engine: it has been validated, both views are contiguous, and
/// nobody else touches the memory until it is done.
struct CollectiveCall {
  /// The operation.
  Operation operation = Operation::barrier;
  /// The elements that this rank gives. If it gives none, the view is empty and has the operation's
  /// dtype.
  TensorView in{nullptr, DType::uint8, std::size_t{0}};
  /// The memory of the result; empty if this rank gets none. It may be the same memory as `in`.
  TensorView out{nullptr, DType::uint8, std::size_t{0}};
  /// A number of elements that every rank agrees on: the length of the smaller one of a rank's
  /// input and output. For an operation with counts it is their sum, and for all_to_all_v 0.
  std::size_t count = 0;
  /// The reduce operation.
  ReduceOp op = ReduceOp::sum;
  /// A user's callable, in place of `op`.
  std::shared_ptr<const detail::CustomReduction> custom = {};
  /// Whether the bits of the result are those of a combination from rank 0 to the last. An engine
  /// that combines in another order does not offer such a call, unless its results are exact.
  bool deterministic = false;
  /// Whether it follows other steps of its schedule, in which another member may fail before it
  /// begins this one. Calls that follow none are begun by all members, or by none.
  bool follows_others = false;
  /// The factor of what this rank gives to a sum. It is set only if the memory is a device's.
  std::optional<double> factor = {};
  /// The root's rank in the group; -1 if the operation has none.
  int root = -1;
  /// The tag that the ranks agree on.
  int tag = 0;
  /// The number of this call in its group, from 1.
  std::uint64_t sequence = 0;
  /// The lengths of the blocks, one for each rank and the same on all ranks, if the operation has
  /// counts. all_to_all_v has in `counts` what this rank sends to each, and in `recv_counts` what
  /// it expects from each; these fit together. The blocks lie one behind the other in group order.
  Counts counts = {}, recv_counts = {};
  /// The function that the user called, if it is made of several operations; the ranks agree on it.
  /// A string literal.
  std::string_view label = {};
  /// With a label: what else the ranks agree on, as text.
  std::string_view also = {};
  /// The part of a call on device memory; null if the memory is the host's, and before the call is
  /// on its way.
  std::shared_ptr<DeviceCall> device = {};
};

/// Returns the name of the function that the user called.
inline std::string_view name_of(const CollectiveCall& call) noexcept { return call.label.empty() ? to_string(call.operation) : call.label; }

}  // namespace unisono

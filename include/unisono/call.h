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
  /// All tensors of a call with several on each rank, each on a device of its own; `in` and `out` of the call are the first then. Else empty.
  std::vector<TensorView> ins = {}, outs = {};
  std::string terms = {};                                ///< what `also` shows
  std::vector<std::shared_ptr<DeviceEvent>> after = {};  ///< the events that its memory waits for
};

/// A collective as it reaches an engine: validated, both views contiguous, memory untouched by anybody else until it is done.
struct CollectiveCall {
  Operation operation = Operation::barrier;
  TensorView in{nullptr, DType::uint8, std::size_t{0}};   ///< what this rank gives; where it gives nothing: empty, of the operation's dtype
  TensorView out{nullptr, DType::uint8, std::size_t{0}};  ///< where its result goes; empty where it gets none; may be the same memory as `in`
  /// Elements that every rank agrees on: of the smaller of a rank's input and output; of an operation with counts, their sum; of all_to_all_v, 0.
  std::size_t count = 0;
  ReduceOp op = ReduceOp::sum;
  std::shared_ptr<const detail::CustomReduction> custom = {};  ///< instead of `op`
  std::optional<double> factor = {};                           ///< of what this rank gives to a sum; only where the memory is a device's
  int root = -1;                                               ///< rank in the group; -1: the operation has none
  int tag = 0;
  std::uint64_t sequence = 0;  ///< number of this call in its group, from 1
  /// Lengths of blocks, size() of them, of an operation with counts: of every rank's block, the same on all ranks. An all_to_all_v has what this rank
  /// sends to each and expects from each, which must fit together. The blocks lie one behind the other in group order.
  Counts counts = {}, recv_counts = {};
  /// The function that the user called, where it is made of several operations; the ranks must agree on it. A string literal.
  std::string_view label = {};
  std::string_view also = {};               ///< with a label: what else the ranks must agree on, as text
  std::shared_ptr<DeviceCall> device = {};  ///< null where the memory is the host's, and before the call is on its way
};
/// The name of the function that the user called.
inline std::string_view name_of(const CollectiveCall& call) noexcept { return call.label.empty() ? to_string(call.operation) : call.label; }

}  // namespace unisono

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "unisono/detail/typed_edge.h"
#include "unisono/export.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives to which every process contributes several tensors, as a process does that drives
// several devices (`*_multigpu` of torch.distributed).
//
// A list is a range of buffers of any kind: std::vector<TensorView>,
// std::vector<std::vector<float>>, std::vector<at::Tensor>; it need not live longer than the call.
// All tensors of a list have one dtype and one length and do not overlap, else the call throws
// InvalidArgument. Lists that differ between ranks in length, dtype or operation are Mismatch on
// all ranks. Lists that are empty on all ranks do nothing.
//
// `len` is the length of the lists. The tensors of the group count as those of size() * len
// participants: tensor j of rank k is participant k * len + j.
//
// NAME_async starts the call and returns at once. The memory belongs to the library until the Work
// is done.

namespace unisono {

namespace detail {
/// A call with several tensors of each rank, which are checked and carried out by the functions
/// below. `ins` is empty where the tensors of `outs` are worked on in place.
struct Multigpu {
  /// The function that the user called, a string literal.
  std::string_view label;
  Operation operation;
  std::vector<TensorView> outs, ins = {};
  std::optional<Rank> root = {};
  ReduceOp op = ReduceOp::sum;
};
UNISONO_API void run_multigpu(Multigpu call, const ProcessGroup& group, const CallOptions& options);
UNISONO_API Work start_multigpu(Multigpu call, const ProcessGroup& group, const CallOptions& options);
}  // namespace detail

/// Replaces every tensor of every rank by tensors[0] of rank `src`.
template <detail::out_list L>
void broadcast_multigpu(L&& tensors, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run_multigpu({"broadcast_multigpu", Operation::broadcast, detail::writable_views_of(tensors), {}, src}, group, options);
}

/// Starts `broadcast_multigpu(tensors, src)`.
template <detail::out_list L>
[[nodiscard]] Work broadcast_multigpu_async(L&& tensors, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start_multigpu({"broadcast_multigpu", Operation::broadcast, detail::writable_views_of(tensors), {}, src}, group, options);
}

/// Replaces every tensor of every rank by the combination of all of them, with the same bits
/// everywhere. ReduceOp::avg divides by size() * len.
template <detail::out_list L>
void all_reduce_multigpu(L&& tensors, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run_multigpu({"all_reduce_multigpu", Operation::all_reduce, detail::writable_views_of(tensors), {}, {}, op}, group, options);
}

/// Starts `all_reduce_multigpu(tensors, op)`.
template <detail::out_list L>
[[nodiscard]] Work all_reduce_multigpu_async(L&& tensors, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return detail::start_multigpu({"all_reduce_multigpu", Operation::all_reduce, detail::writable_views_of(tensors), {}, {}, op}, group, options);
}

/// Replaces tensors[0] of rank `dst` by the combination of all tensors. Every other tensor keeps
/// its elements.
template <detail::out_list L>
void reduce_multigpu(L&& tensors, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                     const CallOptions& options = {}) {
  detail::run_multigpu({"reduce_multigpu", Operation::reduce, detail::writable_views_of(tensors), {}, dst, op}, group, options);
}

/// Starts `reduce_multigpu(tensors, dst, op)`.
template <detail::out_list L>
[[nodiscard]] Work reduce_multigpu_async(L&& tensors, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                         const CallOptions& options = {}) {
  return detail::start_multigpu({"reduce_multigpu", Operation::reduce, detail::writable_views_of(tensors), {}, dst, op}, group, options);
}

/// Collects the inputs of all participants in every output.
///
/// There are as many outputs as inputs. Each output has size() * len blocks of the length of an
/// input; block k * len + j becomes inputs[j] of rank k.
template <detail::out_list Outputs, detail::in_list Inputs>
void all_gather_multigpu(Outputs&& outputs, const Inputs& inputs, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run_multigpu({"all_gather_multigpu", Operation::all_gather, detail::writable_views_of(outputs), detail::views_of(inputs)}, group, options);
}

/// Starts `all_gather_multigpu(outputs, inputs)`.
template <detail::out_list Outputs, detail::in_list Inputs>
[[nodiscard]] Work all_gather_multigpu_async(Outputs&& outputs, const Inputs& inputs, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return detail::start_multigpu({"all_gather_multigpu", Operation::all_gather, detail::writable_views_of(outputs), detail::views_of(inputs)}, group,
                                options);
}

/// Combines the inputs of all participants block by block, and gives each participant its own
/// block.
///
/// There are as many outputs as inputs. Each input has size() * len blocks of the length of an
/// output; outputs[j] of rank k becomes the combination of block k * len + j of all inputs.
template <detail::out_list Outputs, detail::in_list Inputs>
void reduce_scatter_multigpu(Outputs&& outputs, const Inputs& inputs, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                             const CallOptions& options = {}) {
  detail::run_multigpu({"reduce_scatter_multigpu", Operation::reduce_scatter, detail::writable_views_of(outputs), detail::views_of(inputs), {}, op},
                       group, options);
}

/// Starts `reduce_scatter_multigpu(outputs, inputs, op)`.
template <detail::out_list Outputs, detail::in_list Inputs>
[[nodiscard]] Work reduce_scatter_multigpu_async(Outputs&& outputs, const Inputs& inputs, ReduceOp op = ReduceOp::sum,
                                                 const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start_multigpu(
      {"reduce_scatter_multigpu", Operation::reduce_scatter, detail::writable_views_of(outputs), detail::views_of(inputs), {}, op}, group, options);
}

}  // namespace unisono

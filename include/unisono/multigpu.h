#pragma once

#include <span>

#include "unisono/detail/typed_edge.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives to which every process contributes several tensors, as a process does that drives
// several devices (`*_multigpu` of torch.distributed).
//
// A list is a range of buffers of any kind: std::vector<TensorView>,
// std::vector<std::vector<float>>, std::vector<at::Tensor>. All tensors of a list have one dtype
// and one length and do not overlap, else the call throws InvalidArgument. Lists that differ
// between ranks in length, dtype or operation are Mismatch on all ranks. Lists that are empty on
// all ranks do nothing.
//
// `len` is the length of the lists. The tensors of the group count as those of size() * len
// participants: tensor j of rank k is participant k * len + j.

namespace unisono {

/// Replaces every tensor of every rank by tensors[0] of rank `src`.
UNISONO_API void broadcast_multigpu(std::span<const TensorView> tensors, Rank src, const ProcessGroup& group = current_world(),
                                    const CallOptions& options = {});

/// Starts `broadcast_multigpu(tensors, src)` and returns at once. The memory belongs to the library
/// until the Work is done.
[[nodiscard]] UNISONO_API Work broadcast_multigpu_async(std::span<const TensorView> tensors, Rank src, const ProcessGroup& group = current_world(),
                                                        const CallOptions& options = {});

/// Takes a range of buffers in place of views.
template <detail::out_list L>
void broadcast_multigpu(L&& list, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  broadcast_multigpu(std::span<const TensorView>(detail::writable_views_of(list)), src, group, options);
}

/// Takes a range of buffers in place of views, which need not live longer than the call.
template <detail::out_list L>
[[nodiscard]] Work broadcast_multigpu_async(L&& list, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return broadcast_multigpu_async(std::span<const TensorView>(detail::writable_views_of(list)), src, group, options);
}

/// Replaces every tensor of every rank by the combination of all of them, with the same bits
/// everywhere. ReduceOp::avg divides by size() * len.
UNISONO_API void all_reduce_multigpu(std::span<const TensorView> tensors, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                     const CallOptions& options = {});

/// Starts `all_reduce_multigpu(tensors, op)` and returns at once.
[[nodiscard]] UNISONO_API Work all_reduce_multigpu_async(std::span<const TensorView> tensors, ReduceOp op = ReduceOp::sum,
                                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Takes a range of buffers in place of views.
template <detail::out_list L>
void all_reduce_multigpu(L&& list, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  all_reduce_multigpu(std::span<const TensorView>(detail::writable_views_of(list)), op, group, options);
}

/// Takes a range of buffers in place of views.
template <detail::out_list L>
[[nodiscard]] Work all_reduce_multigpu_async(L&& list, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return all_reduce_multigpu_async(std::span<const TensorView>(detail::writable_views_of(list)), op, group, options);
}

/// Replaces tensors[0] of rank `dst` by the combination of all tensors. Every other tensor keeps
/// its elements.
UNISONO_API void reduce_multigpu(std::span<const TensorView> tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                 const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Starts `reduce_multigpu(tensors, dst, op)` and returns at once.
[[nodiscard]] UNISONO_API Work reduce_multigpu_async(std::span<const TensorView> tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                                     const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Takes a range of buffers in place of views.
template <detail::out_list L>
void reduce_multigpu(L&& list, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  reduce_multigpu(std::span<const TensorView>(detail::writable_views_of(list)), dst, op, group, options);
}

/// Takes a range of buffers in place of views.
template <detail::out_list L>
[[nodiscard]] Work reduce_multigpu_async(L&& list, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                         const CallOptions& options = {}) {
  return reduce_multigpu_async(std::span<const TensorView>(detail::writable_views_of(list)), dst, op, group, options);
}

/// Collects the inputs of all participants in every output.
///
/// There are as many outputs as inputs. Each output has size() * len blocks of the length of an
/// input; block k * len + j becomes inputs[j] of rank k.
UNISONO_API void all_gather_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                     const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Starts `all_gather_multigpu(outputs, inputs)` and returns at once.
[[nodiscard]] UNISONO_API Work all_gather_multigpu_async(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Takes ranges of buffers in place of views.
template <detail::out_list Outputs, detail::in_list Inputs>
void all_gather_multigpu(Outputs&& outputs, const Inputs& inputs, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  all_gather_multigpu(std::span<const TensorView>(detail::writable_views_of(outputs)), std::span<const TensorView>(detail::views_of(inputs)), group,
                      options);
}

/// Takes ranges of buffers in place of views.
template <detail::out_list Outputs, detail::in_list Inputs>
[[nodiscard]] Work all_gather_multigpu_async(Outputs&& outputs, const Inputs& inputs, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return all_gather_multigpu_async(std::span<const TensorView>(detail::writable_views_of(outputs)),
                                   std::span<const TensorView>(detail::views_of(inputs)), group, options);
}

/// Combines the inputs of all participants block by block, and gives each participant its own
/// block.
///
/// There are as many outputs as inputs. Each input has size() * len blocks of the length of an
/// output; outputs[j] of rank k becomes the combination of block k * len + j of all inputs.
UNISONO_API void reduce_scatter_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs, ReduceOp op = ReduceOp::sum,
                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Starts `reduce_scatter_multigpu(outputs, inputs, op)` and returns at once.
[[nodiscard]] UNISONO_API Work reduce_scatter_multigpu_async(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                                             ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                                             const CallOptions& options = {});

/// Takes ranges of buffers in place of views.
template <detail::out_list Outputs, detail::in_list Inputs>
void reduce_scatter_multigpu(Outputs&& outputs, const Inputs& inputs, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                             const CallOptions& options = {}) {
  reduce_scatter_multigpu(std::span<const TensorView>(detail::writable_views_of(outputs)), std::span<const TensorView>(detail::views_of(inputs)), op,
                          group, options);
}

/// Takes ranges of buffers in place of views.
template <detail::out_list Outputs, detail::in_list Inputs>
[[nodiscard]] Work reduce_scatter_multigpu_async(Outputs&& outputs, const Inputs& inputs, ReduceOp op = ReduceOp::sum,
                                                 const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return reduce_scatter_multigpu_async(std::span<const TensorView>(detail::writable_views_of(outputs)),
                                       std::span<const TensorView>(detail::views_of(inputs)), op, group, options);
}

}  // namespace unisono

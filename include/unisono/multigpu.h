#pragma once

#include <span>

#include "unisono/detail/buffer_list.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives to which every process contributes several tensors, as one that drives several devices does. A list is a range of buffers of any kind:
// a std::vector<TensorView>, std::vector<std::vector<float>>, std::vector<at::Tensor>. All tensors of a list have one dtype and
// one length and do not overlap, else InvalidArgument; lists of another length, dtype or operation on some rank are a Mismatch on all. Empty lists on
// all ranks do nothing. `len` is the length of the lists: the tensors of the group count as those of size() * len participants, tensor j of rank k
// the participant k * len + j.

namespace unisono {

/// tensors[0] of rank `src` goes to every tensor of every rank.
UNISONO_API void broadcast_multigpu(std::span<const TensorView> tensors, Rank src, const ProcessGroup& group = current_world(),
                                    const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work broadcast_multigpu_async(std::span<const TensorView> tensors, Rank src,
                                                        const ProcessGroup& group = current_world(), const CallOptions& options = {});
template <detail::out_list L>
void broadcast_multigpu(L&& list, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  broadcast_multigpu(std::span<const TensorView>(detail::writable_views_of(list)), src, group, options);
}
template <detail::out_list L>
[[nodiscard]] Work broadcast_multigpu_async(L&& list, Rank src, const ProcessGroup& group = current_world(),
                                            const CallOptions& options = {}) {
  return broadcast_multigpu_async(std::span<const TensorView>(detail::writable_views_of(list)), src, group, options);
}
/// Every tensor of every rank becomes the combination of all, bit for bit the same. avg divides by size() * len.
UNISONO_API void all_reduce_multigpu(std::span<const TensorView> tensors, ReduceOp op = ReduceOp::sum,
                                     const ProcessGroup& group = current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work all_reduce_multigpu_async(std::span<const TensorView> tensors, ReduceOp op = ReduceOp::sum,
                                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});
template <detail::out_list L>
void all_reduce_multigpu(L&& list, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                         const CallOptions& options = {}) {
  all_reduce_multigpu(std::span<const TensorView>(detail::writable_views_of(list)), op, group, options);
}
template <detail::out_list L>
[[nodiscard]] Work all_reduce_multigpu_async(L&& list, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return all_reduce_multigpu_async(std::span<const TensorView>(detail::writable_views_of(list)), op, group, options);
}
/// tensors[0] of rank `dst` becomes the combination of all; every other tensor stays as it is.
UNISONO_API void reduce_multigpu(std::span<const TensorView> tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                 const ProcessGroup& group = current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work reduce_multigpu_async(std::span<const TensorView> tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                                     const ProcessGroup& group = current_world(), const CallOptions& options = {});
template <detail::out_list L>
void reduce_multigpu(L&& list, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                     const CallOptions& options = {}) {
  reduce_multigpu(std::span<const TensorView>(detail::writable_views_of(list)), dst, op, group, options);
}
template <detail::out_list L>
[[nodiscard]] Work reduce_multigpu_async(L&& list, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                         const CallOptions& options = {}) {
  return reduce_multigpu_async(std::span<const TensorView>(detail::writable_views_of(list)), dst, op, group, options);
}
/// Every output: size() * len blocks of the length of an input, block k * len + j from inputs[j] of rank k. As many outputs as inputs.
UNISONO_API void all_gather_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                     const ProcessGroup& group = current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work all_gather_multigpu_async(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});
template <detail::out_list Outputs, detail::in_list Inputs>
void all_gather_multigpu(Outputs&& outputs, const Inputs& inputs, const ProcessGroup& group = current_world(),
                         const CallOptions& options = {}) {
  all_gather_multigpu(std::span<const TensorView>(detail::writable_views_of(outputs)), std::span<const TensorView>(detail::views_of(inputs)), group, options);
}
template <detail::out_list Outputs, detail::in_list Inputs>
[[nodiscard]] Work all_gather_multigpu_async(Outputs&& outputs, const Inputs& inputs, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return all_gather_multigpu_async(std::span<const TensorView>(detail::writable_views_of(outputs)), std::span<const TensorView>(detail::views_of(inputs)),
                                   group, options);
}
/// Every input: size() * len blocks of the length of an output; outputs[j] of rank k gets the combination of block k * len + j of all inputs of all
/// ranks.
UNISONO_API void reduce_scatter_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs, ReduceOp op = ReduceOp::sum,
                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work reduce_scatter_multigpu_async(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                                             ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                                             const CallOptions& options = {});
template <detail::out_list Outputs, detail::in_list Inputs>
void reduce_scatter_multigpu(Outputs&& outputs, const Inputs& inputs, ReduceOp op = ReduceOp::sum,
                             const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  reduce_scatter_multigpu(std::span<const TensorView>(detail::writable_views_of(outputs)), std::span<const TensorView>(detail::views_of(inputs)), op, group,
                          options);
}
template <detail::out_list Outputs, detail::in_list Inputs>
[[nodiscard]] Work reduce_scatter_multigpu_async(Outputs&& outputs, const Inputs& inputs, ReduceOp op = ReduceOp::sum,
                                                 const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return reduce_scatter_multigpu_async(std::span<const TensorView>(detail::writable_views_of(outputs)), std::span<const TensorView>(detail::views_of(inputs)),
                                       op, group, options);
}

}  // namespace unisono

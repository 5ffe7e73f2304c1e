#pragma once

#include <concepts>
#include <span>
#include <vector>

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
/// Anything that stands for views by itself.
template <class L>
concept views_itself = !out_list<L> && std::convertible_to<L, std::span<const TensorView>>;

/// The tensors of a list that is written to.
struct WrittenList {
  WrittenList() = default;
  template <out_list L>
  WrittenList(L&& list) : views(writable_views_of(list)) {}  // NOLINT(google-explicit-constructor): a list stands for its tensors
  template <views_itself L>
  WrittenList(L&& list) : WrittenList(std::span<const TensorView>(list)) {}  // NOLINT(google-explicit-constructor)
  std::vector<TensorView> views;
};

/// The tensors of a list that is read.
struct ReadList {
  ReadList() = default;
  template <in_list L>
  ReadList(const L& list) : views(views_of(list)) {}  // NOLINT(google-explicit-constructor): a list stands for its tensors
  template <views_itself L>
  ReadList(const L& list) : ReadList(std::span<const TensorView>(list)) {}  // NOLINT(google-explicit-constructor)
  std::vector<TensorView> views;
};
}  // namespace detail

/// Replaces every tensor of every rank by tensors[0] of rank `src`.
UNISONO_API void broadcast_multigpu(detail::WrittenList tensors, Rank src, const ProcessGroup& group = current_world(),
                                    const CallOptions& options = {});
/// Starts `broadcast_multigpu(tensors, src)`.
[[nodiscard]] UNISONO_API Work broadcast_multigpu_async(detail::WrittenList tensors, Rank src, const ProcessGroup& group = current_world(),
                                                        const CallOptions& options = {});

/// Replaces every tensor of every rank by the combination of all of them, with the same bits
/// everywhere. ReduceOp::avg divides by size() * len.
UNISONO_API void all_reduce_multigpu(detail::WrittenList tensors, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                     const CallOptions& options = {});
/// Starts `all_reduce_multigpu(tensors, op)`.
[[nodiscard]] UNISONO_API Work all_reduce_multigpu_async(detail::WrittenList tensors, ReduceOp op = ReduceOp::sum,
                                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Replaces tensors[0] of rank `dst` by the combination of all tensors. Every other tensor keeps
/// its elements.
UNISONO_API void reduce_multigpu(detail::WrittenList tensors, Rank dst, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                 const CallOptions& options = {});
/// Starts `reduce_multigpu(tensors, dst, op)`.
[[nodiscard]] UNISONO_API Work reduce_multigpu_async(detail::WrittenList tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                                     const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Collects the inputs of all participants in every output.
///
/// There are as many outputs as inputs. Each output has size() * len blocks of the length of an
/// input; block k * len + j becomes inputs[j] of rank k.
UNISONO_API void all_gather_multigpu(detail::WrittenList outputs, detail::ReadList inputs, const ProcessGroup& group = current_world(),
                                     const CallOptions& options = {});
/// Starts `all_gather_multigpu(outputs, inputs)`.
[[nodiscard]] UNISONO_API Work all_gather_multigpu_async(detail::WrittenList outputs, detail::ReadList inputs,
                                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Combines the inputs of all participants block by block, and gives each participant its own
/// block.
///
/// There are as many outputs as inputs. Each input has size() * len blocks of the length of an
/// output; outputs[j] of rank k becomes the combination of block k * len + j of all inputs.
UNISONO_API void reduce_scatter_multigpu(detail::WrittenList outputs, detail::ReadList inputs, ReduceOp op = ReduceOp::sum,
                                         const ProcessGroup& group = current_world(), const CallOptions& options = {});
/// Starts `reduce_scatter_multigpu(outputs, inputs, op)`.
[[nodiscard]] UNISONO_API Work reduce_scatter_multigpu_async(detail::WrittenList outputs, detail::ReadList inputs, ReduceOp op = ReduceOp::sum,
                                                             const ProcessGroup& group = current_world(), const CallOptions& options = {});

}  // namespace unisono

#pragma once

#include <span>

#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives to which every process contributes several tensors, as one that drives several devices does. All tensors of a list have one dtype and
// one length and do not overlap, else InvalidArgument; lists of another length, dtype or operation on some rank are a Mismatch on all. Empty lists on
// all ranks do nothing. `len` is the length of the lists: the tensors of the group count as those of size() * len participants, tensor j of rank k
// the participant k * len + j.

namespace unisono {

/// tensors[0] of rank `src` goes to every tensor of every rank.
UNISONO_API void broadcast_multigpu(std::span<const Tensor> tensors, Rank src, const ProcessGroup& group = detail::current_world(),
                                    const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work broadcast_multigpu_async(std::span<const Tensor> tensors, Rank src,
                                                        const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
/// Every tensor of every rank becomes the combination of all, bit for bit the same. avg divides by size() * len.
UNISONO_API void all_reduce_multigpu(std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                                     const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work all_reduce_multigpu_async(std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                                                         const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
/// tensors[0] of rank `dst` becomes the combination of all; every other tensor stays as it is.
UNISONO_API void reduce_multigpu(std::span<const Tensor> tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                 const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work reduce_multigpu_async(std::span<const Tensor> tensors, Rank dst, ReduceOp op = ReduceOp::sum,
                                                     const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
/// Every output: size() * len blocks of the length of an input, block k * len + j from inputs[j] of rank k. As many outputs as inputs.
UNISONO_API void all_gather_multigpu(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                     const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work all_gather_multigpu_async(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                                         const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
/// Every input: size() * len blocks of the length of an output; outputs[j] of rank k gets the combination of block k * len + j of all inputs of all
/// ranks.
UNISONO_API void reduce_scatter_multigpu(std::span<const Tensor> outputs, std::span<const Tensor> inputs, ReduceOp op = ReduceOp::sum,
                                         const ProcessGroup& group = detail::current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work reduce_scatter_multigpu_async(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                                             ReduceOp op = ReduceOp::sum, const ProcessGroup& group = detail::current_world(),
                                                             const CallOptions& options = {});

}  // namespace unisono

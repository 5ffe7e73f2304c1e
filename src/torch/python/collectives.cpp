// Translates the calls of torch.distributed into those of this library.

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "torch/python/errors.h"
#include "torch/python/process_group.h"
#include "torch/python/versions.h"
#include "unisono/error.h"

namespace unisono::libtorch {

using c10d::OpType;
using detail::nothing;
using detail::Request;
using WorkPtr = ProcessGroupUnisono::WorkPtr;

namespace {

// Torch's list calls have names, so that ranks whose lists lie differently in memory still make the same call.
constexpr std::string_view all_gather_list = "allgather", gather_list = "gather", scatter_list = "scatter", reduce_scatter_list = "reduce_scatter",
                           all_to_all_list = "alltoall";

// Tells whether the caller goes on without waiting. Older versions of PyTorch do not say so, and wait by themselves.
template <class Options>
bool is_async(const Options& options) {
  if constexpr (requires { options.asyncOp; }) return options.asyncOp;
  else return true;
}

ReduceOp operation_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM: return ReduceOp::sum;
    case c10d::ReduceOp::AVG: return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::product;
    case c10d::ReduceOp::MIN: return ReduceOp::min;
    case c10d::ReduceOp::MAX: return ReduceOp::max;
    case c10d::ReduceOp::BAND: return ReduceOp::band;
    case c10d::ReduceOp::BOR: return ReduceOp::bor;
    case c10d::ReduceOp::BXOR: return ReduceOp::bxor;
    default: throw InvalidArgument(fmt::format("there is no reduction {}", static_cast<int>(op.op_)));
  }
}

at::Tensor factor_of(const c10d::ReduceOp& op, const at::Tensor& of) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) throw InvalidArgument("PREMUL_SUM has no factor", {.hint = "torch.distributed._make_nccl_premul_sum makes it"});
  if (supplement->tensor_factor.defined()) return supplement->tensor_factor.reshape({}).to(of.options());
  return at::scalar_tensor(supplement->double_factor, of.options());
}

Request labelled(Operation operation, TensorView in, TensorView out, std::string_view label, std::shared_ptr<detail::PrologueEpilogue> edges = {}) {
  return {.operation = operation, .in = std::move(in), .out = std::move(out), .label = label, .edges = std::move(edges)};
}

// Returns how many elements go to each rank.
Counts counts_of(const std::vector<std::int64_t>& splits, const at::Tensor& tensor, int ranks) {
  std::vector<std::size_t> lengths(static_cast<std::size_t>(ranks)), offsets(lengths.size());
  c10d::checkSplitSizes(splits, tensor, ranks);
  c10d::computeLengthsAndOffsets(splits, tensor, &lengths, &offsets);
  return lengths;
}

}  // namespace

Request ProcessGroupUnisono::reduction(Operation operation, const at::Tensor& in, const at::Tensor& out, const c10d::ReduceOp& op) const {
  Request request{.operation = operation, .in = read(in), .out = write(out), .op = operation_of(op)};
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return request;
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor scaled = at::empty_like(in, in.options().requires_grad(false));
  request.in = read(scaled);
  request.label = "premul_sum";
  request.edges = scaling(in, scaled, factor_of(op, in));
  return request;
}

WorkPtr ProcessGroupUnisono::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& tensor = single("broadcast", tensors);
    const TensorView view = write(movable(tensor));
    return issue({OpType::BROADCAST, "broadcast", options.timeout, is_async(options), tensors, tensors},
                 {.operation = Operation::broadcast, .in = view, .out = view, .root = root_of("broadcast", options.rootRank)});
  });
}

WorkPtr ProcessGroupUnisono::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& tensor = single("all_reduce", tensors);
    if (tensor.layout() == at::kSparse) return allreduce_sparse(tensors, options);
    return issue({OpType::ALLREDUCE, "all_reduce", options.timeout, is_async(options), tensors, tensors},
                 reduction(Operation::all_reduce, tensor, tensor, options.reduceOp));
  });
}

WorkPtr ProcessGroupUnisono::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return with_torch_errors([&] {
    std::vector<Request> requests;
    for (const at::Tensor& tensor : tensors) requests.push_back(reduction(Operation::all_reduce, tensor, tensor, options.reduceOp));
    return issue({OpType::ALLREDUCE_COALESCED, "all_reduce", options.timeout, is_async(options), tensors, tensors}, requests);
  });
}

WorkPtr ProcessGroupUnisono::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& tensor = single("reduce", tensors);
    Request request = reduction(Operation::reduce, tensor, tensor, options.reduceOp);
    request.root = root_of("reduce", options.rootRank);
    return issue({OpType::REDUCE, "reduce", options.timeout, is_async(options), tensors, tensors}, request);
  });
}

const std::vector<at::Tensor>& ProcessGroupUnisono::only_list(const char* call, const std::vector<std::vector<at::Tensor>>& lists,
                                                              std::string_view required) const {
  if (lists.size() != 1 || lists[0].size() != blocks()) refuse(call, fmt::format(fmt::runtime(required), getSize()));
  return lists[0];
}

WorkPtr ProcessGroupUnisono::allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& input = single("all_gather", inputs);
    const Blocks out(only_list("all_gather", outputs, "requires one list of {} output tensors, one for each rank"));
    const bool even = out.is_even() && outputs[0][0].numel() == input.numel();
    require_shape("all_gather", outputs[0], input, even);
    out.bump_versions();
    Request request =
        labelled(even ? Operation::all_gather : Operation::all_gather_v, read(movable(input)), read(out.whole()), all_gather_list, copying({}, out));
    if (!even) request.counts = out.counts();
    return issue({OpType::ALLGATHER, "all_gather", options.timeout, is_async(options), inputs, outputs}, request);
  });
}

WorkPtr ProcessGroupUnisono::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return with_torch_errors([&] {
    return issue({OpType::_ALLGATHER_BASE, "_all_gather_base", options.timeout, is_async(options), {input}, Tensors{output}},
                 {.operation = Operation::all_gather, .in = read(movable(input)), .out = write(movable(output))});
  });
}

WorkPtr ProcessGroupUnisono::allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return with_torch_errors([&] {
    if (outputs.size() != blocks()) refuse("all_gather_coalesced", fmt::format("requires {} lists of outputs, one for each rank", getSize()));
    std::vector<Request> requests;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensors of_input;
      for (const Tensors& list : outputs) {
        if (list.size() != inputs.size()) refuse("all_gather_coalesced", "requires as many outputs from each rank as inputs");
        if (list[i].sizes() != inputs[i].sizes()) refuse("all_gather_coalesced", "requires outputs of the shapes of the inputs");
        of_input.push_back(list[i]);
      }
      const Blocks out(of_input);
      out.bump_versions();
      requests.push_back(labelled(Operation::all_gather, read(movable(inputs[i])), read(out.whole()), all_gather_list, copying({}, out)));
    }
    return issue({OpType::ALLGATHER_COALESCED, "all_gather", options.timeout, is_async(options), inputs, outputs}, requests);
  });
}

WorkPtr ProcessGroupUnisono::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return with_torch_errors([&] {
    if (outputs.size() != inputs.size()) refuse("all_gather_into_tensor_coalesced", "requires as many outputs as inputs");
    std::vector<Request> requests;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      requests.push_back({.operation = Operation::all_gather, .in = read(movable(inputs[i])), .out = write(movable(outputs[i]))});
    }
    return issue({OpType::ALLGATHER_COALESCED, "all_gather", options.timeout, is_async(options), inputs, outputs}, requests);
  });
}

WorkPtr ProcessGroupUnisono::gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& input = single("gather", inputs);
    const Rank root = root_of("gather", options.rootRank);
    Request request = labelled(Operation::gather, read(movable(input)), nothing(), gather_list);
    if (root.value() == getRank()) {
      const Blocks out(only_list("gather", outputs, "requires a single-element output list containing a list with {} tensors at the root"));
      require_shape("gather", outputs[0], input, true);
      out.bump_versions();
      request.out = read(out.whole());
      request.edges = copying({}, out);
    } else if (!outputs.empty()) {
      refuse("gather", "requires empty output on non-root");
    }
    request.root = root;
    return issue({OpType::GATHER, "gather", options.timeout, is_async(options), inputs, outputs}, request);
  });
}

WorkPtr ProcessGroupUnisono::scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& output = single("scatter", outputs);
    const Rank root = root_of("scatter", options.rootRank);
    Request request = labelled(Operation::scatter, nothing(), write(movable(output)), scatter_list);
    if (root.value() == getRank()) {
      const Blocks in(only_list("scatter", inputs, "requires a single-element input list containing a list with {} tensors at the root"));
      require_shape("scatter", inputs[0], output, true);
      request.in = read(in.whole());
      request.edges = copying(in, {});
    } else if (!inputs.empty()) {
      refuse("scatter", "requires empty input on non-root");
    }
    request.root = root;
    return issue({OpType::SCATTER, "scatter", options.timeout, is_async(options), inputs.empty() ? Tensors{} : inputs[0], outputs}, request);
  });
}

WorkPtr ProcessGroupUnisono::reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) {
  return with_torch_errors([&] {
    const at::Tensor& output = single("reduce_scatter", outputs);
    const Blocks in(only_list("reduce_scatter", inputs, "requires one list of {} input tensors, one for each rank"));
    const bool even = in.is_even() && inputs[0][0].numel() == output.numel();
    require_shape("reduce_scatter", inputs[0], output, even);
    Request request = labelled(even ? Operation::reduce_scatter : Operation::reduce_scatter_v, read(in.whole()), write(output), reduce_scatter_list,
                               copying(in, {}));
    if (options.reduceOp.op_ == c10d::ReduceOp::PREMUL_SUM) {
      const at::Tensor scaled = at::empty_like(in.whole());
      request.in = read(scaled);
      request.edges = scaling(in.whole(), scaled, factor_of(options.reduceOp, scaled), in);
    }
    request.op = operation_of(options.reduceOp);
    if (!even) request.counts = in.counts();
    return issue({OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout, is_async(options), inputs[0], outputs}, request);
  });
}

WorkPtr ProcessGroupUnisono::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return with_torch_errors([&] {
    return issue({OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", options.timeout, is_async(options), {input}, Tensors{output}},
                 reduction(Operation::reduce_scatter, input, output, options.reduceOp));
  });
}

WorkPtr ProcessGroupUnisono::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return with_torch_errors([&] {
    if (outputs.size() != inputs.size()) refuse("reduce_scatter_tensor_coalesced", "requires as many outputs as inputs");
    std::vector<Request> requests;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      requests.push_back(reduction(Operation::reduce_scatter, inputs[i], outputs[i], options.reduceOp));
    }
    return issue({reduce_scatter_tensor_coalesced_type(), "reduce_scatter", options.timeout, is_async(options), inputs, outputs}, requests);
  });
}

// Even splits on this rank may be uneven on others, so all of them use the call with explicit lengths.
WorkPtr ProcessGroupUnisono::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                           std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  return with_torch_errors([&] {
    Request request{.operation = Operation::all_to_all_v, .in = read(movable(input)), .out = write(movable(output))};
    request.counts = counts_of(input_splits, movable(input), getSize());
    request.recv_counts = counts_of(output_splits, movable(output), getSize());
    return issue({OpType::ALLTOALL_BASE, "all_to_all", options.timeout, is_async(options), {input}, Tensors{output}}, request);
  });
}

WorkPtr ProcessGroupUnisono::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return with_torch_errors([&] {
    if (inputs.size() != blocks() || outputs.size() != blocks()) {
      refuse("all_to_all", fmt::format("requires {} inputs and outputs, one for each rank", getSize()));
    }
    const Blocks in(inputs), out(outputs);
    out.bump_versions();
    Request request = labelled(Operation::all_to_all_v, read(in.whole()), read(out.whole()), all_to_all_list, copying(in, out));
    request.counts = in.counts();
    request.recv_counts = out.counts();
    return issue({OpType::ALLTOALL, "all_to_all", options.timeout, is_async(options), inputs, outputs}, request);
  });
}

WorkPtr ProcessGroupUnisono::send(Tensors& tensors, int destination, int tag) {
  return with_torch_errors([&] {
    const at::Tensor& tensor = single("send", tensors);
    return issue_message({OpType::SEND, "send", c10d::kUnsetTimeout, true, tensors, {}, tag},
                         {Operation::send, read(movable(tensor)), root_of("send", destination)});
  });
}

WorkPtr ProcessGroupUnisono::recv(Tensors& tensors, int source, int tag) {
  return with_torch_errors([&] {
    const at::Tensor& tensor = single("recv", tensors);
    return issue_message({OpType::RECV, "recv", c10d::kUnsetTimeout, true, tensors, tensors, tag},
                         {Operation::recv, write(movable(tensor)), root_of("recv", source)});
  });
}

WorkPtr ProcessGroupUnisono::recvAnysource(Tensors& tensors, int tag) {
  return with_torch_errors([&] {
    const at::Tensor& tensor = single("recv", tensors);
    return issue_message({OpType::RECVANYSOURCE, "recvAnySource", c10d::kUnsetTimeout, true, tensors, tensors, tag},
                         {Operation::recv, write(movable(tensor)), std::nullopt});
  });
}

WorkPtr ProcessGroupUnisono::barrier(const c10d::BarrierOptions& options) {
  return issue({OpType::BARRIER, "barrier", options.timeout, is_async(options), {}, {}},
               {.operation = Operation::barrier, .in = nothing(), .out = nothing()});
}

}  // namespace unisono::libtorch

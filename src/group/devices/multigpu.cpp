#include "unisono/multigpu.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error_place.h"
#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/wide_sum.h"
#include "group/group.h"
#include "unisono/detail/request.h"

namespace unisono {
namespace {

using detail::Request;
using Tensors = std::vector<TensorView>;

/// A call with several tensors of each rank. `ins` is empty where the tensors of `outs` are worked on in place.
struct Multigpu {
  std::string_view label;  // the function that the user called, a string literal
  Operation operation;
  Tensors outs, ins = {};
  std::optional<Rank> root = {};
  ReduceOp op = ReduceOp::sum;
};

TensorView line(std::vector<std::byte>& memory, DType dtype) { return {memory.data(), dtype, memory.size() / size_of(dtype)}; }

const Tensors& inputs_of(const Multigpu& call) { return call.ins.empty() ? call.outs : call.ins; }

/// Returns what the ranks must agree on.
std::string terms_of(const Multigpu& call) {
  const Tensors& tensors = inputs_of(call);
  std::string terms = std::to_string(tensors.size()) + " x " + std::string(to_string(tensors.front().dtype()));
  if (reduces(call.operation)) terms.append(", ").append(to_string(call.op));
  return terms;
}

/// Returns how many of the outputs this rank's part of the result is for, from the first one on.
std::size_t results_of(const Multigpu& call, const ProcessGroup& group) {
  return call.operation != Operation::reduce ? call.outs.size() : detail::rank_is(*call.root, group) ? 1 : 0;
}

/// Makes a request of a call without its data.
Request bare_request(const Multigpu& call, const TensorView& in, const TensorView& out, ReduceOp op) {
  Request request{call.operation, in, out, op};
  request.root = call.root;
  request.label = call.label;
  return request;
}

/// The steps of a rank in the host's memory, around one operation of the group for all tensors.
///
/// A reduction combines the inputs in `stage_` first, an all_gather puts them there one behind the other. The result goes to each of the outputs,
/// whole or, from a reduce_scatter, in equal parts. A broadcast works on the first tensor, and the others are copies of that.
class ListSteps final : public detail::PrologueEpilogue {
 public:
  ListSteps(const Multigpu& call, const ProcessGroup& group)
      : call_(call),
        terms_(terms_of(call)),
        results_(results_of(call, group)),
        sum_(call.outs.front().dtype(), call.op, reduces(call.operation) ? inputs_of(call).size() : 1, group.size()) {
    const TensorView &in = inputs_of(call).front(), &out = call.outs.front();
    if (call.operation == Operation::broadcast) {
      if (call.outs.size() > 1 && !in.is_contiguous()) result_.resize(in.bytes());
    } else if (call.operation == Operation::all_gather) {
      stage_.resize(in.bytes() * call.ins.size());
      result_.resize(out.bytes());
    } else {
      const bool is_in_parts = call.operation == Operation::reduce_scatter;
      const std::size_t count = static_cast<std::size_t>(out.numel()) * (is_in_parts ? call.outs.size() : 1);
      stage_.resize(static_cast<std::size_t>(in.numel()) * sum_.element_bytes());
      if (is_in_parts) reduced_.resize(count * sum_.element_bytes());
      result_.resize(count * size_of(out.dtype()));
    }
  }
  TensorView in() { return call_.operation == Operation::broadcast ? call_.outs.front() : line(stage_, sum_.dtype()); }
  TensorView out() {
    if (call_.operation == Operation::all_gather) return line(result_, sum_.dtype());
    return call_.operation == Operation::reduce_scatter ? line(reduced_, sum_.dtype()) : in();
  }
  ReduceOp op() const { return sum_.op(); }

  std::string_view terms() const override { return terms_; }
  void prologue() override {
    if (reduces(call_.operation)) sum_.combine(stage_.data(), inputs_of(call_));
    else if (call_.operation == Operation::all_gather) group::take_list(stage_.data(), call_.ins);
  }
  void epilogue() override {
    std::span<const TensorView> outs = std::span(call_.outs).first(results_);
    const std::byte* result = result_.data();
    if (call_.operation == Operation::broadcast) {
      outs = outs.subspan(1);
      if (result_.empty()) result = static_cast<const std::byte*>(call_.outs.front().data());
      else group::take(result_.data(), call_.outs.front());
    } else if (reduces(call_.operation) && !outs.empty()) {
      sum_.finish(result_.data(), (call_.ins.empty() ? stage_ : reduced_).data(), result_.size() / size_of(outs.front().dtype()));
    }
    if (call_.operation == Operation::reduce_scatter) return group::put_list(outs, result);
    for (const TensorView& out : outs) group::put(out, result);
  }

 private:
  const Multigpu call_;
  std::string terms_;
  std::size_t results_;
  group::WideSum sum_;
  std::vector<std::byte> stage_, reduced_, result_;
};

/// The part of a rank whose lists are empty.
class NoTensors final : public detail::PrologueEpilogue {
 public:
  void prologue() override {}
  void epilogue() override {}
  std::string_view terms() const override { return "no tensors"; }
};

Request on_host(const Multigpu& call, const ProcessGroup& group) {
  const auto steps = std::make_shared<ListSteps>(call, group);
  Request request = bare_request(call, steps->in(), steps->out(), steps->op());
  request.edges = steps;
  return request;
}

/// Makes the request of the same call on copies in the host's memory, and the list of what is copied between the two.
std::shared_ptr<detail::ListsOnHost> on_copies(const Multigpu& call, const ProcessGroup& group) {
  const auto lists = std::make_shared<detail::ListsOnHost>(detail::ListsOnHost{.request = {call.operation, detail::nothing(), detail::nothing()}});
  Multigpu copies = call;
  for (Tensors* const tensors : {&copies.ins, &copies.outs}) {
    for (TensorView& tensor : *tensors) tensor = line(lists->memory.emplace_back(tensor.bytes()), tensor.dtype());
  }
  for (std::size_t j = 0; j < inputs_of(call).size(); ++j) lists->before.push_back({inputs_of(copies)[j], inputs_of(call)[j]});
  for (std::size_t j = 0; j < results_of(call, group); ++j) lists->after.push_back({call.outs[j], copies.outs[j]});
  lists->request = on_host(copies, group);
  return lists;
}

/// Makes the request of lists on devices. Their engine takes each tensor as a participant of its own.
Request on_devices(const Multigpu& call, const ProcessGroup& group) {
  const Tensors& ins = inputs_of(call);
  Request request = bare_request(call, ins.front(), call.outs.front(), call.op);
  request.lists = std::make_shared<DeviceCall>(DeviceCall{.ins = ins, .outs = call.outs, .terms = terms_of(call)});
  request.lists->terms.append(" x ").append(std::to_string(ins.front().numel()));
  request.on_host = [call, group] { return on_copies(call, group); };
  return request;
}

/// Throws where the lists are wrong by themselves.
void check(const Multigpu& call, const group::GroupFacts& group) {
  const bool gathers = call.operation == Operation::all_gather, is_in_place = !gathers && call.operation != Operation::reduce_scatter;
  if (!is_in_place) group::check_block_lists(group, call.label, gathers ? call.outs : call.ins, gathers ? call.ins : call.outs);
  if (call.outs.empty()) return;
  if (!is_in_place) {
    group::check_list(group, call.label, call.ins, {}, false);
    group::check_sent(group, call.label, call.ins);
  }
  group::check_list(group, call.label, call.outs, call.ins, true);
  if (reduces(call.operation)) group::check_operation(group, call.label, call.outs.front().dtype(), call.op);
  if (!is_in_place) group::check_one_place(group, call.label, call.ins, call.outs);
  else if (reduces(call.operation)) group::check_sent(group, call.label, call.outs);
}

Request request_of(Multigpu& call, const ProcessGroup& group) {
  const group::GroupFacts& facts = group.implementation()->facts();
  call.ins = group::locate_list(facts, call.ins);
  call.outs = group::locate_list(facts, call.outs);
  check(call, facts);
  if (call.outs.empty()) {
    Request request = bare_request(call, detail::nothing(), detail::nothing(), call.op);
    request.edges = std::make_shared<NoTensors>();
    return request;
  }
  return group::is_on_device(inputs_of(call).front()) ? on_devices(call, group) : on_host(call, group);
}

void run(Multigpu call, const ProcessGroup& group, const CallOptions& options) {
  base::with_place(options.where, [&] { detail::run(request_of(call, group), group, options); });
}
Work start(Multigpu call, const ProcessGroup& group, const CallOptions& options) {
  return base::with_place(options.where, [&] { return detail::start(request_of(call, group), group, options); });
}

}  // namespace

void broadcast_multigpu(detail::WrittenList tensors, Rank src, const ProcessGroup& group, const CallOptions& options) {
  run({"broadcast_multigpu", Operation::broadcast, std::move(tensors.views), {}, src}, group, options);
}
Work broadcast_multigpu_async(detail::WrittenList tensors, Rank src, const ProcessGroup& group, const CallOptions& options) {
  return start({"broadcast_multigpu", Operation::broadcast, std::move(tensors.views), {}, src}, group, options);
}
void all_reduce_multigpu(detail::WrittenList tensors, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  run({"all_reduce_multigpu", Operation::all_reduce, std::move(tensors.views), {}, {}, op}, group, options);
}
Work all_reduce_multigpu_async(detail::WrittenList tensors, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  return start({"all_reduce_multigpu", Operation::all_reduce, std::move(tensors.views), {}, {}, op}, group, options);
}
void reduce_multigpu(detail::WrittenList tensors, Rank dst, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  run({"reduce_multigpu", Operation::reduce, std::move(tensors.views), {}, dst, op}, group, options);
}
Work reduce_multigpu_async(detail::WrittenList tensors, Rank dst, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  return start({"reduce_multigpu", Operation::reduce, std::move(tensors.views), {}, dst, op}, group, options);
}
void all_gather_multigpu(detail::WrittenList outputs, detail::ReadList inputs, const ProcessGroup& group, const CallOptions& options) {
  run({"all_gather_multigpu", Operation::all_gather, std::move(outputs.views), std::move(inputs.views)}, group, options);
}
Work all_gather_multigpu_async(detail::WrittenList outputs, detail::ReadList inputs, const ProcessGroup& group, const CallOptions& options) {
  return start({"all_gather_multigpu", Operation::all_gather, std::move(outputs.views), std::move(inputs.views)}, group, options);
}
void reduce_scatter_multigpu(detail::WrittenList outputs, detail::ReadList inputs, ReduceOp op, const ProcessGroup& group,
                             const CallOptions& options) {
  run({"reduce_scatter_multigpu", Operation::reduce_scatter, std::move(outputs.views), std::move(inputs.views), {}, op}, group, options);
}
Work reduce_scatter_multigpu_async(detail::WrittenList outputs, detail::ReadList inputs, ReduceOp op, const ProcessGroup& group,
                                   const CallOptions& options) {
  return start({"reduce_scatter_multigpu", Operation::reduce_scatter, std::move(outputs.views), std::move(inputs.views), {}, op}, group, options);
}

}  // namespace unisono

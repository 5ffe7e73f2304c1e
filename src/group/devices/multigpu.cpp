#include "unisono/multigpu.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error_place.h"
#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/wide_sum.h"
#include "group/group.h"
#include "unisono/detail/request.h"
#include "unisono/detail/typed_edge.h"

namespace unisono {
namespace {

using base::with_place;
using detail::Request;
using group::put;
using group::take;
using group::WideSum;
using Tensors = std::vector<TensorView>;

TensorView line(std::vector<std::byte>& memory, DType dtype) { return {memory.data(), dtype, memory.size() / size_of(dtype)}; }

std::string terms_of(const Tensors& tensors, std::optional<ReduceOp> op) {
  std::string terms = std::to_string(tensors.size()) + " x " + std::string(to_string(tensors.front().dtype()));
  if (op) terms.append(", ").append(to_string(*op));
  return terms;
}

/// A list of tensors on its way into or out of one operation.
class Lists : public detail::PrologueEpilogue {
 public:
  Lists(const Tensors& tensors, std::optional<ReduceOp> op) : terms_(terms_of(tensors, op)) {}
  std::string_view terms() const final { return terms_; }

 private:
  std::string terms_;
};

/// The part of a rank whose lists are empty.
class NoTensors final : public detail::PrologueEpilogue {
 public:
  void prologue() override {}
  void epilogue() override {}
  std::string_view terms() const override { return "no tensors"; }
};

class Broadcast final : public Lists {
 public:
  explicit Broadcast(Tensors tensors) : Lists(tensors, {}), tensors_(std::move(tensors)) {
    if (tensors_.size() > 1 && !tensors_.front().is_contiguous()) memory_.resize(tensors_.front().bytes());
  }
  void prologue() override {}
  void epilogue() override {
    if (tensors_.size() == 1) return;
    const TensorView& first = tensors_.front();
    if (!memory_.empty()) take(memory_.data(), first);
    const std::byte* from = memory_.empty() ? static_cast<const std::byte*>(first.data()) : memory_.data();
    for (std::size_t j = 1; j < tensors_.size(); ++j) put(tensors_[j], from);
  }

 private:
  Tensors tensors_;
  std::vector<std::byte> memory_;
};

/// Several tensors, combined into one before the operation. The result goes to each of `outputs` in equal parts, or whole.
class Combined final : public Lists {
 public:
  enum class Result { whole, parts };
  Combined(Tensors inputs, Tensors outputs, Result result, ReduceOp op, std::size_t result_size, int ranks)
      : Lists(inputs, op),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        result_kind_(result),
        sum_(inputs_.front().dtype(), op, inputs_.size(), ranks),
        stage_(static_cast<std::size_t>(inputs_.front().numel()) * sum_.element_bytes()),
        reduced_(result == Result::whole ? 0 : result_size * sum_.element_bytes()),
        result_(result_size * size_of(inputs_.front().dtype())) {}

  TensorView in() { return line(stage_, sum_.dtype()); }
  TensorView out() { return result_kind_ == Result::whole ? in() : line(reduced_, sum_.dtype()); }
  ReduceOp op() const { return sum_.op(); }

  void prologue() override { sum_.combine(stage_.data(), inputs_); }
  void epilogue() override {
    if (outputs_.empty()) return;
    const std::vector<std::byte>& reduced = result_kind_ == Result::whole ? stage_ : reduced_;
    sum_.finish(result_.data(), reduced.data(), result_.size() / size_of(inputs_.front().dtype()));
    const std::byte* from = result_.data();
    for (const TensorView& output : outputs_) {
      put(output, from);
      if (result_kind_ == Result::parts) from += output.bytes();
    }
  }

 private:
  Tensors inputs_, outputs_;
  Result result_kind_;
  WideSum sum_;
  std::vector<std::byte> stage_, reduced_, result_;
};

class Gathered final : public Lists {
 public:
  Gathered(Tensors inputs, Tensors outputs) : Lists(inputs, {}), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    stage_.resize(inputs_.front().bytes() * inputs_.size());
    result_.resize(outputs_.front().bytes());
  }
  TensorView in() { return line(stage_, inputs_.front().dtype()); }
  TensorView out() { return line(result_, inputs_.front().dtype()); }
  void prologue() override { group::take_list(stage_.data(), inputs_); }
  void epilogue() override {
    for (const TensorView& output : outputs_) put(output, result_.data());
  }

 private:
  Tensors inputs_, outputs_;
  std::vector<std::byte> stage_, result_;
};

bool is_on_device(const Tensors& tensors) { return !tensors.empty() && tensors.front().device().type != Device::Type::cpu; }

/// Makes the request of lists on devices. Their engine takes each tensor as a participant of its own.
Request on_devices(Operation operation, const char* name, Tensors ins, Tensors outs, std::optional<Rank> root, ReduceOp op = ReduceOp::sum) {
  Request request{operation, ins.front(), outs.front(), op};
  request.root = root;
  request.label = name;
  request.lists = std::make_shared<DeviceCall>();
  request.lists->terms = terms_of(ins, reduces(operation) ? std::optional(op) : std::nullopt);
  request.lists->terms.append(" x ").append(std::to_string(ins.front().numel()));
  request.lists->ins = std::move(ins);
  request.lists->outs = std::move(outs);
  return request;
}

/// Copies in the host's memory of lists on devices, and the list of what is copied between the two.
class HostCopies {
 public:
  Tensors of(const Tensors& tensors) {
    Tensors copies;
    for (const TensorView& tensor : tensors) {
      auto& memory = lists_->memory.emplace_back(tensor.bytes());
      copies.push_back(line(memory, tensor.dtype()));
    }
    return copies;
  }
  void fill(const Tensors& copies, const Tensors& from) {
    for (std::size_t j = 0; j < copies.size(); ++j) lists_->before.push_back({copies[j], from[j]});
  }
  void bring_back(const Tensors& copies, const Tensors& to) {
    for (std::size_t j = 0; j < copies.size(); ++j) lists_->after.push_back({to[j], copies[j]});
  }
  std::shared_ptr<detail::ListsOnHost> with(Request request) {
    lists_->request = std::move(request);
    return lists_;
  }

 private:
  std::shared_ptr<detail::ListsOnHost> lists_ =
      std::make_shared<detail::ListsOnHost>(detail::ListsOnHost{.request = {Operation::barrier, detail::nothing(), detail::nothing()}});
};

/// Makes the request of a rank whose lists are empty.
Request nothing_of(Operation operation, const char* name, std::optional<Rank> root, ReduceOp op = ReduceOp::sum) {
  Request request{operation, detail::nothing(), detail::nothing(), op};
  request.root = root;
  request.label = name;
  request.edges = std::make_shared<NoTensors>();
  return request;
}

void check_inputs(const ProcessGroup& group, const char* name, const Tensors& tensors) {
  group::check_list(group.implementation()->facts(), name, tensors, {}, false);
  group::check_sent(group.implementation()->facts(), name, tensors);
}
void check_outputs(const ProcessGroup& group, const char* name, const Tensors& tensors, const Tensors& inputs = {}) {
  group::check_list(group.implementation()->facts(), name, tensors, inputs, true);
}
void check_operation(const ProcessGroup& group, const char* name, const Tensors& tensors, ReduceOp op) {
  group::check_operation(group.implementation()->facts(), name, tensors.front().dtype(), op);
}
void check_blocks(const ProcessGroup& group, const char* name, const Tensors& whole, const Tensors& parts) {
  group::check_block_lists(group.implementation()->facts(), name, whole, parts);
}

Request broadcast_on_host(Tensors tensors, const char* name, Rank src) {
  Request request{Operation::broadcast, tensors.front(), tensors.front()};
  request.root = src;
  request.label = name;
  request.edges = std::make_shared<Broadcast>(std::move(tensors));
  return request;
}

Request broadcast_request(std::span<const TensorView> list, Rank src, const ProcessGroup& group) {
  constexpr const char* name = "broadcast_multigpu";
  Tensors tensors = group::locate_list(group.implementation()->facts(), list);
  if (tensors.empty()) return nothing_of(Operation::broadcast, name, src);
  check_outputs(group, name, tensors);
  if (!is_on_device(tensors)) return broadcast_on_host(std::move(tensors), name, src);
  Request request = on_devices(Operation::broadcast, name, tensors, tensors, src);
  request.on_host = [tensors, src] {
    HostCopies host;
    const Tensors copies = host.of(tensors);
    host.fill(copies, tensors);
    host.bring_back(copies, tensors);
    return host.with(broadcast_on_host(copies, name, src));
  };
  return request;
}

Request reduce_on_host(Tensors tensors, const char* name, std::optional<Rank> dst, ReduceOp op, const ProcessGroup& group) {
  Tensors outputs = tensors;
  if (dst) outputs.resize(detail::rank_is(*dst, group) ? 1 : 0, tensors.front());
  const auto numel = static_cast<std::size_t>(tensors.front().numel());
  const auto edges = std::make_shared<Combined>(std::move(tensors), std::move(outputs), Combined::Result::whole, op, numel, group.size());
  Request request{dst ? Operation::reduce : Operation::all_reduce, edges->in(), edges->out(), edges->op()};
  request.root = dst;
  request.label = name;
  request.edges = edges;
  return request;
}

Request reduce_request(std::span<const TensorView> list, std::optional<Rank> dst, ReduceOp op, const ProcessGroup& group) {
  const char* name = dst ? "reduce_multigpu" : "all_reduce_multigpu";
  const Operation operation = dst ? Operation::reduce : Operation::all_reduce;
  Tensors tensors = group::locate_list(group.implementation()->facts(), list);
  if (tensors.empty()) return nothing_of(operation, name, dst, op);
  check_outputs(group, name, tensors);
  check_operation(group, name, tensors, op);
  group::check_sent(group.implementation()->facts(), name, tensors);
  if (!is_on_device(tensors)) return reduce_on_host(std::move(tensors), name, dst, op, group);
  Request request = on_devices(operation, name, tensors, tensors, dst, op);
  request.on_host = [tensors, name, dst, op, group] {
    HostCopies host;
    const Tensors copies = host.of(tensors);
    host.fill(copies, tensors);
    if (!dst) host.bring_back(copies, tensors);
    else if (detail::rank_is(*dst, group)) host.bring_back({copies.front()}, {tensors.front()});
    return host.with(reduce_on_host(copies, name, dst, op, group));
  };
  return request;
}

Request all_gather_on_host(Tensors ins, Tensors outs, const char* name) {
  const auto edges = std::make_shared<Gathered>(std::move(ins), std::move(outs));
  Request request{Operation::all_gather, edges->in(), edges->out()};
  request.label = name;
  request.edges = edges;
  return request;
}

Request all_gather_request(std::span<const TensorView> outputs, std::span<const TensorView> inputs, const ProcessGroup& group) {
  constexpr const char* name = "all_gather_multigpu";
  Tensors ins = group::locate_list(group.implementation()->facts(), inputs), outs = group::locate_list(group.implementation()->facts(), outputs);
  check_blocks(group, name, outs, ins);
  if (ins.empty()) return nothing_of(Operation::all_gather, name, {});
  check_inputs(group, name, ins);
  check_outputs(group, name, outs, ins);
  group::check_one_place(group.implementation()->facts(), name, ins, outs);
  if (!is_on_device(ins)) return all_gather_on_host(std::move(ins), std::move(outs), name);
  Request request = on_devices(Operation::all_gather, name, ins, outs, {});
  request.on_host = [ins, outs] {
    HostCopies host;
    const Tensors in_copies = host.of(ins), out_copies = host.of(outs);
    host.fill(in_copies, ins);
    host.bring_back(out_copies, outs);
    return host.with(all_gather_on_host(in_copies, out_copies, name));
  };
  return request;
}

Request reduce_scatter_on_host(Tensors ins, Tensors outs, const char* name, ReduceOp op, const ProcessGroup& group) {
  const std::size_t numel = static_cast<std::size_t>(outs.front().numel()) * outs.size();
  const auto edges = std::make_shared<Combined>(std::move(ins), std::move(outs), Combined::Result::parts, op, numel, group.size());
  Request request{Operation::reduce_scatter, edges->in(), edges->out(), edges->op()};
  request.label = name;
  request.edges = edges;
  return request;
}

Request reduce_scatter_request(std::span<const TensorView> outputs, std::span<const TensorView> inputs, ReduceOp op, const ProcessGroup& group) {
  constexpr const char* name = "reduce_scatter_multigpu";
  Tensors ins = group::locate_list(group.implementation()->facts(), inputs), outs = group::locate_list(group.implementation()->facts(), outputs);
  check_blocks(group, name, ins, outs);
  if (ins.empty()) return nothing_of(Operation::reduce_scatter, name, {}, op);
  check_inputs(group, name, ins);
  check_outputs(group, name, outs, ins);
  check_operation(group, name, ins, op);
  group::check_one_place(group.implementation()->facts(), name, ins, outs);
  if (!is_on_device(ins)) return reduce_scatter_on_host(std::move(ins), std::move(outs), name, op, group);
  Request request = on_devices(Operation::reduce_scatter, name, ins, outs, {}, op);
  request.on_host = [ins, outs, op, group] {
    HostCopies host;
    const Tensors in_copies = host.of(ins), out_copies = host.of(outs);
    host.fill(in_copies, ins);
    host.bring_back(out_copies, outs);
    return host.with(reduce_scatter_on_host(in_copies, out_copies, name, op, group));
  };
  return request;
}

}  // namespace

void broadcast_multigpu(std::span<const TensorView> tensors, Rank src, const ProcessGroup& group, const CallOptions& options) {
  with_place(options.where, [&] { detail::run(broadcast_request(tensors, src, group), group, options); });
}
Work broadcast_multigpu_async(std::span<const TensorView> tensors, Rank src, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return detail::start(broadcast_request(tensors, src, group), group, options); });
}
void all_reduce_multigpu(std::span<const TensorView> tensors, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  with_place(options.where, [&] { detail::run(reduce_request(tensors, {}, op, group), group, options); });
}
Work all_reduce_multigpu_async(std::span<const TensorView> tensors, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return detail::start(reduce_request(tensors, {}, op, group), group, options); });
}
void reduce_multigpu(std::span<const TensorView> tensors, Rank dst, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  with_place(options.where, [&] { detail::run(reduce_request(tensors, dst, op, group), group, options); });
}
Work reduce_multigpu_async(std::span<const TensorView> tensors, Rank dst, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return detail::start(reduce_request(tensors, dst, op, group), group, options); });
}
void all_gather_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs, const ProcessGroup& group,
                         const CallOptions& options) {
  with_place(options.where, [&] { detail::run(all_gather_request(outputs, inputs, group), group, options); });
}
Work all_gather_multigpu_async(std::span<const TensorView> outputs, std::span<const TensorView> inputs, const ProcessGroup& group,
                               const CallOptions& options) {
  return with_place(options.where, [&] { return detail::start(all_gather_request(outputs, inputs, group), group, options); });
}
void reduce_scatter_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs, ReduceOp op, const ProcessGroup& group,
                             const CallOptions& options) {
  with_place(options.where, [&] { detail::run(reduce_scatter_request(outputs, inputs, op, group), group, options); });
}
Work reduce_scatter_multigpu_async(std::span<const TensorView> outputs, std::span<const TensorView> inputs, ReduceOp op, const ProcessGroup& group,
                                   const CallOptions& options) {
  return with_place(options.where, [&] { return detail::start(reduce_scatter_request(outputs, inputs, op, group), group, options); });
}

}  // namespace unisono

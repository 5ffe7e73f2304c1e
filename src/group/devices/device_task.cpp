#include "group/devices/device_group.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engines/device_copy.h"
#include "schedule/device_call.h"
#include "base/log.h"
#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/device_memory_task.h"
#include "group/devices/device_streams.h"
#include "unisono/cuda.h"

namespace unisono::group {
namespace {

using detail::TensorCopy;
TensorView line_of(void* memory, const TensorView& like, Device device = {}) {
  const std::int64_t shape[] = {like.numel()};
  return {memory, like.dtype(), shape, {}, device};
}

bool is_same_view(const TensorView& a, const TensorView& b) { return a.data() == b.data() && a.numel() == b.numel(); }

/// A call by the engine of devices. Strided views are packed in memory of their device, and the host waits for nothing of that.
class OnDevice final : public DeviceTask {
 public:
  /// Starts the call with contiguous views in place of its own, each behind what is on the stream of its device.
  using Start = std::function<std::unique_ptr<Task>(const Tensors& ins, const Tensors& outs, DeviceStreams& streams)>;

  /// `Until`: when the task is done.
  enum class Until { enqueued, reached };

  OnDevice(DeviceGroup& group, Tensors ins, Tensors outs, LastOnDevice last, std::shared_ptr<detail::PrologueEpilogue> edges, Start start,
           Until until = Until::enqueued)
      : DeviceTask(group, std::move(ins), std::move(outs), std::move(last)), edges_(std::move(edges)), start_(std::move(start)), until_(until) {}

  bool advance() override {
    return attribution_.guard([&] {
      if (!completion_) {
        if (!task_) pack();
        if (!task_->advance()) return false;
        unpack();
      }
      return until_ == Until::enqueued || completion_->reached();
    });
  }
  bool wakes_waiter() const override { return !completion_ && task_ && task_->wakes_waiter(); }
  std::shared_ptr<DeviceEvent> completion() const override { return until_ == Until::enqueued ? completion_ : nullptr; }

 private:
  void pack() {
    streams_ = std::make_unique<DeviceStreams>(*runtime_, views_, after());
    if (edges_) streams_->copy(edges_->prologue_copies());
    Tensors ins, outs;
    for (const TensorView& in : ins_) ins.push_back(packed(in));
    for (std::size_t i = 0; i < outs_.size(); ++i) {
      const TensorView& out = outs_[i];
      const bool in_place = i < ins_.size() && is_same_view(ins_[i], out);
      outs.push_back(in_place ? ins[i] : packed(out));  // a rank that gets no result must find its memory unchanged
      if (outs.back().data() != out.data()) results_.push_back({out, outs.back()});
    }
    if (edges_) {
      const auto own = edges_->epilogue_copies();
      results_.insert(results_.end(), own.begin(), own.end());
    }
    task_ = start_(ins, outs, *streams_);
  }
  TensorView packed(const TensorView& view) {
    if (view.is_contiguous()) return view;
    DeviceStream& stream = streams_->of(view);
    const TensorView dense = line_of(stream.allocate(view.bytes()), view, view.device());
    engines::copy(stream, dense, view);
    return dense;
  }
  // The streams give back the memory that was taken, in the order of their work.
  void unpack() {
    const auto operation = task_->completion();
    if (operation) streams_->order(*operation);
    streams_->copy(results_);
    completion_ = std::make_shared<DeviceCompletion>(operation, streams_->end(), edges_);
    streams_.reset();
  }

  std::shared_ptr<detail::PrologueEpilogue> edges_;
  Start start_;
  Until until_;
  std::unique_ptr<DeviceStreams> streams_;
  std::vector<TensorCopy> results_;
  std::shared_ptr<DeviceEvent> completion_;
};

/// The parts of a call through the host.
struct HostPlan {
  std::vector<TensorCopy> before = {}, after = {};
  std::function<std::unique_ptr<Task>()> start = {};  ///< on memory of the host, once the copies before are made
  std::shared_ptr<void> kept = {};
};

/// Waits for the device, copies, has the host's engine carry the call out, and copies the result back. Done when the result is there.
class ThroughHost final : public DeviceTask {
 public:
  using MakePlan = std::function<HostPlan()>;
  ThroughHost(DeviceGroup& group, Tensors ins, Tensors outs, LastOnDevice last, MakePlan make_plan)
      : DeviceTask(group, std::move(ins), std::move(outs), std::move(last)), make_plan_(std::move(make_plan)) {}

  bool advance() override {
    return attribution_.guard([&] {
      if (state_ == State::waiting) {
        if (!are_reached(after())) return false;
        plan_ = make_plan_();
        begin_to_copy(plan_.before);
        state_ = State::reading;
      }
      if (state_ == State::reading) {
        if (!are_reached(copied_)) return false;
        task_ = plan_.start();
        state_ = State::working;
      }
      if (state_ == State::working) {
        if (!task_->advance()) return false;
        begin_to_copy(plan_.after);
        state_ = State::writing;
      }
      return are_reached(copied_);
    });
  }
  std::vector<int> waiting_for() const override { return state_ == State::working ? DeviceTask::waiting_for() : std::vector<int>{}; }
  bool wakes_waiter() const override { return state_ == State::working && task_->wakes_waiter(); }

 private:
  enum class State { waiting, reading, working, writing } state_ = State::waiting;
  void begin_to_copy(const std::vector<TensorCopy>& copies) {
    DeviceStreams streams(*runtime_, views_, {});
    streams.copy(copies);
    copied_ = streams.end();
  }

  MakePlan make_plan_;
  HostPlan plan_;
  Events copied_;
};

void say_once(const std::string& what, const std::string& why) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) base::warn(fmt::format("{} goes through the host's memory: {} (said once a process)", what, why));
}

using Memory = std::vector<std::unique_ptr<std::byte[]>>;

TensorView host_copy(const TensorView& view, Memory& memory) {
  memory.push_back(std::make_unique_for_overwrite<std::byte[]>(view.bytes()));
  return line_of(memory.back().get(), view);
}

HostPlan plan_of(DeviceGroup& group, CollectiveCall call, const detail::PrologueEpilogue* edges) {
  HostPlan plan;
  if (edges != nullptr) plan.before = edges->prologue_copies();
  const auto memory = std::make_shared<Memory>();
  const TensorView in = call.in, out = call.out;
  call.device.reset();
  if (is_on_device(in)) {
    call.in = host_copy(in, *memory);
    plan.before.push_back({call.in, in});
  }
  if (is_on_device(out)) {
    const bool is_result = call.operation != Operation::reduce || call.root == group.rank();
    call.out = is_same_view(in, out) ? call.in : host_copy(out, *memory);
    if (is_result) plan.after.push_back({out, call.out});
  }
  if (edges != nullptr) {
    const auto own = edges->epilogue_copies();
    plan.after.insert(plan.after.end(), own.begin(), own.end());
  }
  plan.start = [&group, call]() mutable {
    const auto product = product_of(call);
    return packed_task(group.core(), call, product);
  };
  plan.kept = memory;
  return plan;
}

HostPlan plan_of_lists(DeviceGroup& group, const CollectiveCall& call, const detail::ListsOnHost& lists, const std::shared_ptr<void>& kept,
                       const CallOptions& options) {
  CollectiveCall own = check_collective(group.facts(), lists.request, detail::name_of(lists.request), options);
  own.sequence = call.sequence;
  return {.before = lists.before,
          .after = lists.after,
          .start = [&group, own, edges = lists.request.edges] { return packed_task(group.core(), own, edges); },
          .kept = kept};
}

/// Returns why a call is not carried out on the devices; empty: it is. All ranks come to the same answer, or find that they differ.
std::string why_through_host(DeviceGroup& group, const CollectiveCall& call, const detail::Request& request) {
  const Device place = is_on_device(call.in) ? call.in.device() : call.out.device();
  const std::string_view backend = group.core().name();
  if (!group.facts().device() || group.facts().device()->type != place.type)
    return fmt::format("backend {} does not work on memory of {}", backend, to_string(place));
  if (sizes_its_output(request)) return "its output is memory of the host";
  if (!group.core().executor().offers_on_device(call)) {
    if (!reduces(call.operation)) return fmt::format("{} does not offer it there", backend);
    const std::string_view op = call.custom ? std::string_view("a callable of the program's") : to_string(call.op);
    return fmt::format("{} does not offer {} of {} there", backend, op, to_string(call.in.dtype()));
  }
  if (request.lists && devices_of(request.lists->ins).size() < request.lists->ins.size()) return "several tensors of a list are on one device";
  return {};
}

bool are_contiguous(const Tensors& views) {
  return std::ranges::all_of(views, [](const TensorView& view) { return view.is_contiguous(); });
}

std::unique_ptr<Task> in_pieces(DeviceGroup& group, const CollectiveCall& call, const detail::Request& request, LastOnDevice last) {
  if (!request.edges && call.in.is_contiguous() && call.out.is_contiguous()) return pieces_through_host(group, call, std::move(last));
  const auto start = [&group, call](const Tensors& packed_ins, const Tensors& packed_outs, DeviceStreams& streams) {
    CollectiveCall packed = call;
    packed.in = packed_ins.front();
    packed.out = packed_outs.front();
    const CurrentStream current(streams.of(is_on_device(packed.in) ? packed.in : packed.out).handle());  // so that it comes after the packing
    return pieces_through_host(group, packed, nullptr);
  };
  return std::make_unique<OnDevice>(group, Tensors{call.in}, Tensors{call.out}, std::move(last), request.edges, start, OnDevice::Until::reached);
}

}  // namespace

std::unique_ptr<Task> device_task(DeviceGroup& group, const CollectiveCall& call, const detail::Request& request, const CallOptions& options,
                                  LastOnDevice last) {
  const bool is_dense =
      request.lists ? are_contiguous(request.lists->ins) && are_contiguous(request.lists->outs) : call.in.is_contiguous() && call.out.is_contiguous();
  const std::string why = why_through_host(group, call, request);
  if (why.empty() && is_dense && !request.edges) return std::make_unique<schedule::DeviceCallTask>(group.core().executor(), call);
  const Tensors ins = request.lists ? request.lists->ins : Tensors{call.in}, outs = request.lists ? request.lists->outs : Tensors{call.out};
  if (!why.empty()) {
    const Device place = is_on_device(call.in) ? call.in.device() : call.out.device();
    say_once(fmt::format("{} of {}", name_of(call), to_string(place)), why);
    if (goes_in_pieces(call, request)) return in_pieces(group, call, request, std::move(last));
    return std::make_unique<ThroughHost>(group, ins, outs, std::move(last),
                                         [&group, call, on_host = request.on_host, edges = request.edges, options] {
                                           if (!on_host) return plan_of(group, call, edges.get());
                                           const auto lists = on_host();
                                           return plan_of_lists(group, call, *lists, lists, options);
                                         });
  }
  const auto start = [&group, call](const Tensors& packed_ins, const Tensors& packed_outs, DeviceStreams& streams) {
    CollectiveCall packed = call;
    packed.device = call.device ? std::make_shared<DeviceCall>(*call.device) : std::make_shared<DeviceCall>();
    if (call.device && !call.device->ins.empty()) {
      packed.device->ins = packed_ins;
      packed.device->outs = packed_outs;
    }
    packed.device->stream.reset();
    packed.in = packed_ins.front();
    packed.out = packed_outs.front();
    packed.device->after = streams.end();
    const CurrentStream current(
        streams.of(is_on_device(packed.in) ? packed.in : packed.out).handle());  // so that it comes after nothing else of this thread's
    return std::make_unique<schedule::DeviceCallTask>(group.core().executor(), packed);
  };
  return std::make_unique<OnDevice>(group, ins, outs, std::move(last), request.edges, start);
}

std::unique_ptr<Task> device_task(DeviceGroup& group, const MessageCall& call, bool sends) {
  const auto start_on = [&group, call, sends](const TensorView& data) {
    MessageCall own = call;
    own.data = data;
    return sends ? group.core().start_send(own) : group.core().start_recv(own);
  };
  const Tensors ins = sends ? Tensors{call.data} : Tensors{}, outs = sends ? Tensors{} : Tensors{call.data};
  if (!group.facts().device() || group.facts().device()->type != call.data.device().type) {
    say_once(fmt::format("{} of {}", call.label.empty() ? (sends ? "send" : "recv") : call.label, to_string(call.data.device())),
             fmt::format("backend {} does not work there", group.core().name()));
    return std::make_unique<ThroughHost>(group, ins, outs, nullptr, [call, sends, start_on] {
      HostPlan plan;
      const auto memory = std::make_shared<Memory>();
      const TensorView copy = host_copy(call.data, *memory);
      (sends ? plan.before : plan.after).push_back(sends ? TensorCopy{copy, call.data} : TensorCopy{call.data, copy});
      plan.start = [start_on, copy] { return start_on(copy); };
      plan.kept = memory;
      return plan;
    });
  }
  if (call.data.is_contiguous()) return start_on(call.data);
  return std::make_unique<OnDevice>(group, ins, outs, nullptr, nullptr,
                                    [start_on, sends](const Tensors& packed_ins, const Tensors& packed_outs, DeviceStreams& streams) {
                                      const TensorView& data = sends ? packed_ins.front() : packed_outs.front();
                                      const CurrentStream current(streams.of(data).handle());  // so that it comes after the packing
                                      return start_on(data);
                                    });
}

}  // namespace unisono::group

// The messages of a group: sends, receives and probes.

#include <algorithm>
#include <optional>
#include <utility>

#include "engines/message.h"
#include "base/eager.h"
#include "base/relax.h"
#include "group/both_ways.h"
#include "group/check.h"
#include "group/composed.h"
#include "group/device_streams.h"
#include "group/entry.h"
#include "group/group.h"
#include "group/packing.h"
#include "group/wait_check.h"
#include "group/waiter.h"

namespace unisono::group {
namespace {

// The most that a group keeps for receivers that do not come; beyond it senders wait like those of large messages.
constexpr std::size_t most_buffered = std::size_t{64} << 20;
constexpr std::size_t bytes_of_a_look = 256;  // that are copied while a sender looks once for room
constexpr std::size_t buffered_cost = 1024;   // of a kept send, beside its elements
// Smaller messages are never read out of their sender's memory: a call of the system takes longer than two copies.
constexpr std::size_t least_lent = std::size_t{4} << 10;

/// A probe that is done after one look, whether or not it has found something.
class Glance final : public Task {
 public:
  explicit Glance(std::unique_ptr<Task> probe) : probe_(std::move(probe)) {}
  bool advance() override {
    static_cast<void>(probe_->advance());
    return true;
  }
  std::vector<int> waiting_for() const override { return {}; }
  Arrival arrival() const override { return probe_->arrival(); }

 private:
  std::unique_ptr<Task> probe_;
};

MessageInfo info_of(const Arrival& arrival) {
  const DType dtype = engines::dtype_of_kind(arrival.kind);
  const bool is_object = (arrival.kind & engines::labelled_kind) != 0;
  return {.source = arrival.source,
          .tag = arrival.tag,
          .dtype = dtype,
          .count = is_object ? 0 : static_cast<std::size_t>(arrival.bytes) / std::max<std::size_t>(size_of(dtype), 1),
          .is_object = is_object};
}

/// Returns the ranks whose messages a receive or a probe waits for.
std::vector<int> sources_of(const MessageCall& call, int rank, int size) {
  if (call.peer >= 0) return {call.peer};
  std::vector<int> others;
  for (int r = 0; r < size; ++r) {
    if (r != rank) others.push_back(r);
  }
  return others;
}

}  // namespace

bool Group::leaves_at_once(const detail::MessageRequest& request) const {
  const std::size_t bytes = request.data.bytes();
  if (request.operation != Operation::send || bytes > base::eager_bytes || lane_->buffered.load() + buffered_cost + bytes > most_buffered)
    return false;
  return !lies_on_device(facts_, request.data);
}

template <class F>
auto Group::with_errors(std::string_view operation, std::uint64_t sequence, bool peer_waits, F&& f) {
  try {
    return f();
  } catch (const Mismatch&) {
    std::rethrow_exception(errors_.complete(std::current_exception(), operation, sequence));
  } catch (const GroupFailure& over) {
    std::rethrow_exception(errors_.fail(over.failure(), operation, sequence));
  } catch (...) {
    if (peer_waits) errors_.abort_after(std::current_exception());
    throw;
  }
}

// Where there is no room, what is pending here may be what the peer waits for, and a peer that reads soon makes room in less time than a copy of the
// message for later would take.
bool Group::leaves(const MessageCall& call, std::string_view operation) {
  using Tried = engines::MessageCarrier::Tried;
  std::size_t looks = coordination().is_crowded() ? 0 : call.data.bytes() / bytes_of_a_look;
  for (;; --looks) {
    const bool beside_others = lane_->has_messages();
    const auto try_beside_others = [&] {
      if (lane_->is_over()) std::rethrow_exception(errors_.error_when_over(operation, call.sequence));
      return core().try_send(call);
    };
    const Tried tried = beside_others ? parts_.progress->exclusively(try_beside_others) : core().try_send(call);
    if (tried == Tried::sent) return true;
    if (tried == Tried::never) return false;
    if (beside_others) parts_.progress->advance(*lane_);
    if (looks == 0) return false;
    base::relax();
  }
}

// Where ranks share a processor, the receiver does not come while this rank waits for it.
bool Group::rather_lends(const MessageCall& call) {
  if (call.data.bytes() < least_lent || !call.data.is_contiguous() || coordination().is_crowded()) return false;
  using Lending = engines::MessageCarrier::Lending;
  const auto lends = [&] { return core().messages().lends(call); };
  for (std::size_t looks = call.data.bytes() / bytes_of_a_look;; --looks) {
    const bool beside_others = lane_->has_messages();
    const Lending lending = beside_others ? parts_.progress->exclusively(lends) : lends();
    if (lending != Lending::later || looks == 0) return lending == Lending::now;
    if (beside_others) parts_.progress->advance(*lane_);
    base::relax();
  }
}

bool Group::leaves_to_receiver(const MessageCall& call) {
  if (!call.data.is_contiguous() || lies_on_device(facts_, call.data)) return false;
  return parts_.progress->exclusively([&] { return core().messages().leaves_to_receiver(call); });
}

// A small send that nobody takes at once goes on without its caller. If it fails then, the next call throws its error.
void Group::send_eagerly(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record,
                         const MakeTask& make) {
  if (!lane_->has_messages() && rather_lends(call)) {
    return with_errors(operation, call.sequence, false, [&] {
      const auto task = make();
      if (!task->advance()) BlockingWaiter(errors_, operation, call.sequence, timeout_of(options), record).wait(*task);
    });
  }
  if (call.data.is_contiguous() && leaves(call, operation)) return;
  const auto leave_behind = [&](const MakeTask& make_detached) {
    get_ready(operation, call.sequence);
    const std::size_t kept = buffered_cost + call.data.bytes();
    lane_->buffered.fetch_add(kept);
    static_cast<void>(
        parts_.progress->submit(lane_, Lane::Kind::message, pending(operation, call.sequence, options, {}, kept), make_detached).work());
  };
  if (lane_->has_messages()) {
    return leave_behind([&] {
      auto task = make();
      task->detach();
      return task;
    });
  }
  with_errors(operation, call.sequence, false, [&] {
    auto task = make();
    if (task->advance()) return;
    if (task->detach()) leave_behind([&] { return std::move(task); });
    else BlockingWaiter(errors_, operation, call.sequence, timeout_of(options), record).wait(*task);
  });
}

bool Group::is_plain_receive(const MessageCall& call, Operation operation) {
  return operation == Operation::recv && call.data.is_contiguous() && !is_on_device(call.data);
}

PendingReceive* Group::post(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record,
                            std::uint64_t other) {
  get_ready(operation, call.sequence);
  PendingReceive* const receive = PendingReceive::make(
      parts_.progress, lane_, {.operation = operation, .where = options.where, .record = record, .timeout = timeout_of(options)}, other);
  parts_.progress->post(*lane_, *receive, errors_, core().messages(), call);
  return receive;
}

Arrival Group::receive(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record) {
  if (lane_->has_messages()) {
    const StatePtr state(post(call, operation, options, record, detail::WorkState::holder));
    finish(*state);
    return state->arrival;
  }
  return with_errors(operation, call.sequence, false, [&] {
    RecvTask task(core().messages(), call);
    if (!task.advance()) BlockingWaiter(errors_, operation, call.sequence, timeout_of(options), record).wait(task);
    return task.arrival();
  });
}

Arrival Group::carry_out(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record,
                         const MakeTask& make) {
  const bool on_device = is_on_device(call.data);
  if (on_device) get_ready(operation, call.sequence);
  if (lane_->has_messages()) {
    const auto state = parts_.progress->submit(lane_, Lane::Kind::message, pending(operation, call.sequence, options, record), make);
    finish(*state);
    return state->arrival;
  }
  StatePtr left;  // to the device
  const Arrival arrival = with_errors(operation, call.sequence, on_device, [&] {
    std::optional<Pending> watched;
    if (on_device) watched = pending(operation, call.sequence, options, record);
    const auto task = make();
    if (!task->advance()) BlockingWaiter(errors_, operation, call.sequence, timeout_of(options), record).wait(*task);
    if (on_device) left = watch(*task, std::move(*watched));
    return task->arrival();
  });
  if (left) left->order_stream();
  return arrival;
}

MessageInfo Group::run(const detail::MessageRequest& request, const CallOptions& options) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry(errors_, busy_, operation);
  MessageCall call = check_message(facts_, request, options);
  call.sequence = begin(operation);
  const auto make = [&] { return task_of(call, request.operation == Operation::send); };
  recorder::Recording recording(*parts_.recorder, facts_of(call, request.operation, options));
  MessageInfo info;
  if (leaves_at_once(request)) send_eagerly(call, operation, options, recording.call(), std::ref(make));
  else if (is_plain_receive(call, request.operation)) info = info_of(receive(call, operation, options, recording.call()));
  else info = info_of(carry_out(call, operation, options, recording.call(), std::ref(make)));
  recording.succeed();
  return info;
}

Work Group::start(const detail::MessageRequest& request, const CallOptions& options) {
  const bool is_small = leaves_at_once(request);
  if (is_small && request.data.bytes() < least_lent) {
    run(request, options);
    return {};
  }
  const std::string_view operation = detail::name_of(request);
  const Entry entry(errors_, busy_, operation);
  MessageCall call = check_message(facts_, request, options);
  call.sequence = begin(operation);
  if (is_plain_receive(call, request.operation))
    return Work(post(call, operation, options, parts_.recorder->queue_and_run(facts_of(call, request.operation, options)), detail::WorkState::work));
  const auto make = [&] { return task_of(call, request.operation == Operation::send); };
  if (is_small && !rather_lends(call)) {
    recorder::Recording recording(*parts_.recorder, facts_of(call, request.operation, options));
    send_eagerly(call, operation, options, recording.call(), std::ref(make));
    recording.succeed();
    return {};
  }
  get_ready(operation, call.sequence);
  const bool needs_no_thread = is_small || (request.operation == Operation::send && leaves_to_receiver(call));
  return parts_.progress
      ->submit(lane_, Lane::Kind::message,
               pending(operation, call.sequence, options, parts_.recorder->queue(facts_of(call, request.operation, options))), std::ref(make),
               needs_no_thread ? Progress::Thread::later : Progress::Thread::at_once)
      .work();
}

bool Group::may_go_both_ways(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) const {
  if (out.data.bytes() < least_lent || lane_->has_messages() || lies_on_device(facts_, out.data) || !out.data.is_contiguous()) return false;
  return is_plain_receive(check_message(facts_, in, options), in.operation);
}

// A small message leaves without its receiver. One that had better be lent does not, where its receiver sends as well and does not look meanwhile.
std::optional<int> Group::exchange(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) {
  const std::string_view operation = detail::name_of(in);
  const Entry entry(errors_, busy_, operation);
  MessageCall sent = check_message(facts_, out, options), received = check_message(facts_, in, options);
  if (leaves_at_once(out) && !rather_lends(sent)) return std::nullopt;
  sent.sequence = begin(detail::name_of(out));
  received.sequence = begin(operation);
  recorder::Recording sending(*parts_.recorder, facts_of(sent, out.operation, options));
  recorder::Recording receiving(*parts_.recorder, facts_of(received, in.operation, options));
  const Arrival arrival = with_errors(operation, received.sequence, false, [&] {
    BothWays task(core().messages(), received, [&] { return task_of(sent, true); });
    if (!task.advance()) BlockingWaiter(errors_, operation, received.sequence, timeout_of(options), receiving.call()).wait(task);
    return task.arrival();
  });
  sending.succeed();
  receiving.succeed();
  return arrival.source;
}

// A send that leaves at once needs no thread beside the caller.
int Group::send_recv(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) {
  verify(in, options);
  if (may_go_both_ways(out, in, options)) {
    if (const auto source = exchange(out, in, options)) return *source;
  }
  if (leaves_at_once(out)) {
    run(out, options);
    return run(in, options).source;
  }
  Work received = start(in, options);
  Work sent = start(out, options);
  sent.wait();
  received.wait();
  return received.source_rank();
}

std::optional<MessageInfo> Group::probe(const detail::MessageRequest& request, const CallOptions& options, bool waits) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry(errors_, busy_, operation);
  MessageCall call = check_message(facts_, request, options);
  call.sequence = begin(operation);
  std::optional<recorder::Recording> recording;
  if (waits) recording.emplace(*parts_.recorder, facts_of(call, Operation::recv, options));
  const auto look = [&] {
    return carry_out(call, operation, options, recording ? recording->call() : recorder::Recorder::Call{}, [&]() -> std::unique_ptr<Task> {
      auto task = core().start_probe(call);
      if (waits) return task;
      return std::make_unique<Glance>(std::move(task));
    });
  };
  Arrival arrival = look();
  // A program that looks again and again learns of a peer that is gone, as one that waits does. Messages that the peer sent before still count.
  if (const auto now = base::Clock::now(); arrival.source < 0 && now >= next_look_) {
    next_look_ = now + look_period;
    const auto failure = coordination().look_for_failures(sources_of(call, rank(), size()), call.peer < 0);
    if (failure) arrival = look();
    if (failure && arrival.source < 0) std::rethrow_exception(errors_.fail(*failure, operation, call.sequence));
  }
  if (arrival.source < 0) return std::nullopt;
  if (recording) recording->succeed();
  if (arrival.kind == engines::kind_of(DType::uint64, engines::device_announcement)) {
    throw Unsupported("the next message of rank " + std::to_string(arrival.source) + " (tag " + std::to_string(arrival.tag) + ") is of device memory",
                      {.operation = std::string(operation),
                       .group = name(),
                       .sequence = call.sequence,
                       .rank = rank(),
                       .culprit = arrival.source,
                       .hint = "of those only the receive learns how long they are: send the length before"});
  }
  return info_of(arrival);
}

void Group::verify(const detail::MessageRequest& request, const CallOptions& options) const {
  static_cast<void>(check_message(facts_, request, options));
}

}  // namespace unisono::group

namespace unisono::detail {

MessageInfo recv_sized(const TensorView& now, std::optional<Rank> src, const std::function<TensorView(std::size_t count)>& resize,
                       const ProcessGroup& group, const CallOptions& options) {
  group::Composed call(to_string(Operation::recv), group, options);
  const MessageRequest request{Operation::recv, now, src, call.name()};
  const MessageInfo info = *probe(request, group, call.options(), true);
  CallOptions rest = call.options();
  rest.tag = info.tag;
  // The receive of a message of another dtype, or of an object, throws the mismatch and drops the message.
  const bool fits = info.dtype == now.dtype() && !info.is_object;
  return run({Operation::recv, fits ? resize(info.count) : now, Rank(info.source)}, group, rest);
}

}  // namespace unisono::detail

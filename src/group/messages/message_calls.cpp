#include "group/messages/message_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/eager.h"
#include "base/notifier.h"
#include "engines/message.h"
#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/device_task.h"
#include "group/messages/both_ways.h"
#include "group/progress/wait_check.h"
#include "group/progress/waiter.h"

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

std::unique_ptr<Task> MessageCalls::task_of(const MessageCall& call, bool sends) {
  if (!is_on_device(call.data)) [[likely]]
    return packed_task(calls_.core(), call, sends);
  return device_task(devices_, call, sends);
}

bool MessageCalls::leaves_at_once(const detail::MessageRequest& request) const {
  const std::size_t bytes = request.data.bytes();
  if (request.operation != Operation::send || bytes > base::eager_bytes || calls_.lane()->buffered.load() + buffered_cost + bytes > most_buffered)
    return false;
  return !lies_on_device(calls_.facts(), request.data);
}

template <class F>
auto MessageCalls::with_errors(std::string_view operation, std::uint64_t sequence, bool peer_waits, F&& f) {
  try {
    return f();
  } catch (const Mismatch&) {
    std::rethrow_exception(calls_.errors().complete(std::current_exception(), operation, sequence));
  } catch (const GroupFailure& over) {
    std::rethrow_exception(calls_.errors().fail(over.failure(), operation, sequence));
  } catch (...) {
    if (peer_waits) calls_.errors().abort_after(std::current_exception());
    throw;
  }
}

// Where there is no room, what is pending here may be what the peer waits for, and a peer that reads soon makes room in less time than a copy of the
// message for later would take.
bool MessageCalls::leaves(const MessageCall& call, std::string_view operation) {
  using Tried = engines::MessageCarrier::Tried;
  std::size_t looks = calls_.errors().coordination().is_crowded() ? 0 : call.data.bytes() / bytes_of_a_look;
  for (;; --looks) {
    const bool beside_others = calls_.lane()->has_messages();
    const auto try_beside_others = [&] {
      if (calls_.lane()->is_over()) std::rethrow_exception(calls_.errors().error_when_over(operation, call.sequence));
      return calls_.core().try_send(call);
    };
    const Tried tried = beside_others ? calls_.progress().exclusively(try_beside_others) : calls_.core().try_send(call);
    if (tried == Tried::sent) return true;
    if (tried == Tried::never) return false;
    if (beside_others) calls_.progress().advance(*calls_.lane());
    if (looks == 0) return false;
    base::relax();
  }
}

// Where ranks share a processor, the receiver does not come while this rank waits for it.
bool MessageCalls::rather_lends(const MessageCall& call) {
  if (call.data.bytes() < least_lent || !call.data.is_contiguous() || calls_.errors().coordination().is_crowded()) return false;
  using Lending = engines::MessageCarrier::Lending;
  const auto lends = [&] { return calls_.core().messages().lends(call); };
  for (std::size_t looks = call.data.bytes() / bytes_of_a_look;; --looks) {
    const bool beside_others = calls_.lane()->has_messages();
    const Lending lending = beside_others ? calls_.progress().exclusively(lends) : lends();
    if (lending != Lending::later || looks == 0) return lending == Lending::now;
    if (beside_others) calls_.progress().advance(*calls_.lane());
    base::relax();
  }
}

bool MessageCalls::leaves_to_receiver(const MessageCall& call) {
  if (!call.data.is_contiguous() || lies_on_device(calls_.facts(), call.data)) return false;
  return calls_.progress().exclusively([&] { return calls_.core().messages().leaves_to_receiver(call); });
}

// A small send that nobody takes at once goes on without its caller. If it fails then, the next call throws its error.
void MessageCalls::send_eagerly(const MessageCall& call, std::string_view operation, const CallOptions& options,
                                const recorder::Recorder::Call& record, const MakeTask& make) {
  if (!calls_.lane()->has_messages() && rather_lends(call)) {
    return with_errors(operation, call.sequence, false, [&] {
      const auto task = make();
      if (!task->advance()) BlockingWaiter(calls_.errors(), operation, call.sequence, calls_.timeout_of(options), record).wait(*task);
    });
  }
  if (call.data.is_contiguous() && leaves(call, operation)) return;
  const auto leave_behind = [&](const MakeTask& make_detached) {
    calls_.get_ready(operation, call.sequence);
    const std::size_t kept = buffered_cost + call.data.bytes();
    calls_.lane()->buffered.fetch_add(kept);
    static_cast<void>(calls_.progress()
                          .submit(calls_.lane(), Lane::Kind::message, calls_.pending(operation, call.sequence, options, {}, kept), make_detached)
                          .work());
  };
  if (calls_.lane()->has_messages()) {
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
    else BlockingWaiter(calls_.errors(), operation, call.sequence, calls_.timeout_of(options), record).wait(*task);
  });
}

bool MessageCalls::is_plain_receive(const MessageCall& call, Operation operation) {
  return operation == Operation::recv && call.data.is_contiguous() && !is_on_device(call.data);
}

PendingReceive* MessageCalls::post(const MessageCall& call, std::string_view operation, const CallOptions& options,
                                   const recorder::Recorder::Call& record, std::uint64_t other) {
  calls_.get_ready(operation, call.sequence);
  PendingReceive* const receive =
      PendingReceive::make(calls_.shared_progress(), calls_.lane(),
                           {.operation = operation, .where = options.where, .record = record, .timeout = calls_.timeout_of(options)}, other);
  calls_.progress().post(*calls_.lane(), *receive, calls_.errors(), calls_.core().messages(), call);
  return receive;
}

Arrival MessageCalls::receive(const MessageCall& call, std::string_view operation, const CallOptions& options,
                              const recorder::Recorder::Call& record) {
  if (calls_.lane()->has_messages()) {
    const StatePtr state(post(call, operation, options, record, detail::WorkState::holder));
    calls_.finish(*state);
    return state->arrival;
  }
  return with_errors(operation, call.sequence, false, [&] {
    RecvTask task(calls_.core().messages(), call);
    if (!task.advance()) BlockingWaiter(calls_.errors(), operation, call.sequence, calls_.timeout_of(options), record).wait(task);
    return task.arrival();
  });
}

Arrival MessageCalls::carry_out(const MessageCall& call, std::string_view operation, const CallOptions& options,
                                const recorder::Recorder::Call& record, const MakeTask& make) {
  const bool on_device = is_on_device(call.data);
  if (on_device) calls_.get_ready(operation, call.sequence);
  if (calls_.lane()->has_messages()) {
    const auto state = calls_.progress().submit(calls_.lane(), Lane::Kind::message, calls_.pending(operation, call.sequence, options, record), make);
    calls_.finish(*state);
    return state->arrival;
  }
  StatePtr left;  // to the device
  const Arrival arrival = with_errors(operation, call.sequence, on_device, [&] {
    std::optional<Pending> watched;
    if (on_device) watched = calls_.pending(operation, call.sequence, options, record);
    const auto task = make();
    if (!task->advance()) BlockingWaiter(calls_.errors(), operation, call.sequence, calls_.timeout_of(options), record).wait(*task);
    if (on_device) left = calls_.watch(*task, std::move(*watched));
    return task->arrival();
  });
  if (left) left->order_stream();
  return arrival;
}

MessageInfo MessageCalls::run(const detail::MessageRequest& request, const CallOptions& options) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry = calls_.enter(operation);
  MessageCall call = check_message(calls_.facts(), request, options);
  call.sequence = calls_.begin(operation);
  const auto make = [&] { return task_of(call, request.operation == Operation::send); };
  recorder::Recording recording(calls_.recorder(), calls_.facts_of(call, request.operation, options));
  MessageInfo info;
  if (leaves_at_once(request)) send_eagerly(call, operation, options, recording.call(), std::ref(make));
  else if (is_plain_receive(call, request.operation)) info = info_of(receive(call, operation, options, recording.call()));
  else info = info_of(carry_out(call, operation, options, recording.call(), std::ref(make)));
  recording.succeed();
  return info;
}

Work MessageCalls::start(const detail::MessageRequest& request, const CallOptions& options) {
  const bool is_small = leaves_at_once(request);
  if (is_small && request.data.bytes() < least_lent) {
    run(request, options);
    return {};
  }
  const std::string_view operation = detail::name_of(request);
  const Entry entry = calls_.enter(operation);
  MessageCall call = check_message(calls_.facts(), request, options);
  call.sequence = calls_.begin(operation);
  if (is_plain_receive(call, request.operation))
    return Work(
        post(call, operation, options, calls_.recorder().queue_and_run(calls_.facts_of(call, request.operation, options)), detail::WorkState::work));
  const auto make = [&] { return task_of(call, request.operation == Operation::send); };
  if (is_small && !rather_lends(call)) {
    recorder::Recording recording(calls_.recorder(), calls_.facts_of(call, request.operation, options));
    send_eagerly(call, operation, options, recording.call(), std::ref(make));
    recording.succeed();
    return {};
  }
  calls_.get_ready(operation, call.sequence);
  const bool needs_no_thread = is_small || (request.operation == Operation::send && leaves_to_receiver(call));
  return calls_.shared_progress()
      ->submit(calls_.lane(), Lane::Kind::message,
               calls_.pending(operation, call.sequence, options, calls_.recorder().queue(calls_.facts_of(call, request.operation, options))),
               std::ref(make), needs_no_thread ? Progress::Thread::later : Progress::Thread::at_once)
      .work();
}

bool MessageCalls::may_go_both_ways(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) const {
  if (out.data.bytes() < least_lent || calls_.lane()->has_messages() || lies_on_device(calls_.facts(), out.data) || !out.data.is_contiguous())
    return false;
  return is_plain_receive(check_message(calls_.facts(), in, options), in.operation);
}

// A small message leaves without its receiver. One that had better be lent does not, where its receiver sends as well and does not look meanwhile.
std::optional<int> MessageCalls::exchange(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) {
  const std::string_view operation = detail::name_of(in);
  const Entry entry = calls_.enter(operation);
  MessageCall sent = check_message(calls_.facts(), out, options), received = check_message(calls_.facts(), in, options);
  if (leaves_at_once(out) && !rather_lends(sent)) return std::nullopt;
  sent.sequence = calls_.begin(detail::name_of(out));
  received.sequence = calls_.begin(operation);
  recorder::Recording sending(calls_.recorder(), calls_.facts_of(sent, out.operation, options));
  recorder::Recording receiving(calls_.recorder(), calls_.facts_of(received, in.operation, options));
  const Arrival arrival = with_errors(operation, received.sequence, false, [&] {
    BothWays task(calls_.core().messages(), received, [&] { return task_of(sent, true); });
    if (!task.advance()) BlockingWaiter(calls_.errors(), operation, received.sequence, calls_.timeout_of(options), receiving.call()).wait(task);
    return task.arrival();
  });
  sending.succeed();
  receiving.succeed();
  return arrival.source;
}

// A send that leaves at once needs no thread beside the caller.
int MessageCalls::send_recv(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) {
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

std::optional<MessageInfo> MessageCalls::probe(const detail::MessageRequest& request, const CallOptions& options, bool waits) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry = calls_.enter(operation);
  MessageCall call = check_message(calls_.facts(), request, options);
  call.sequence = calls_.begin(operation);
  std::optional<recorder::Recording> recording;
  if (waits) recording.emplace(calls_.recorder(), calls_.facts_of(call, Operation::recv, options));
  const auto look = [&] {
    return carry_out(call, operation, options, recording ? recording->call() : recorder::Recorder::Call{}, [&]() -> std::unique_ptr<Task> {
      auto task = calls_.core().start_probe(call);
      if (waits) return task;
      return std::make_unique<Glance>(std::move(task));
    });
  };
  Arrival arrival = look();
  // A program that looks again and again learns of a peer that is gone, as one that waits does. Messages that the peer sent before still count.
  if (const auto now = base::Clock::now(); arrival.source < 0 && now >= next_look_) {
    next_look_ = now + look_period;
    const auto failure =
        calls_.errors().coordination().look_for_failures(sources_of(call, calls_.facts().rank(), calls_.facts().size()), call.peer < 0);
    if (failure) arrival = look();
    if (failure && arrival.source < 0) std::rethrow_exception(calls_.errors().fail(*failure, operation, call.sequence));
  }
  if (arrival.source < 0) return std::nullopt;
  if (recording) recording->succeed();
  if (arrival.kind == engines::kind_of(DType::uint64, engines::device_announcement)) {
    throw Unsupported("the next message of rank " + std::to_string(arrival.source) + " (tag " + std::to_string(arrival.tag) + ") is of device memory",
                      {.operation = std::string(operation),
                       .group = calls_.facts().name(),
                       .sequence = call.sequence,
                       .rank = calls_.facts().rank(),
                       .culprit = arrival.source,
                       .hint = "of those only the receive learns how long they are: send the length before"});
  }
  return info_of(arrival);
}

void MessageCalls::verify(const detail::MessageRequest& request, const CallOptions& options) const {
  static_cast<void>(check_message(calls_.facts(), request, options));
}

}  // namespace unisono::group

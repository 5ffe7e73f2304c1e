#include "group/messages/message_calls.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/eager.h"
#include "base/notifier.h"
#include "engines/message.h"
#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/device_group.h"
#include "group/messages/recv_task.h"
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

}  // namespace

MessageCalls::Begun MessageCalls::begin(const detail::MessageRequest& request, const CallOptions& options) {
  Begun begun{detail::name_of(request), request.operation, options, check_message(calls_.facts(), request, options)};
  begun.call.sequence = calls_.begin(begun.operation);
  return begun;
}

Pending MessageCalls::pending(const Begun& begun, const Record& record, std::size_t buffered) const {
  return calls_.pending(begun.operation, begun.call.sequence, begun.options, record, buffered);
}

std::unique_ptr<Task> MessageCalls::task_of(const Begun& begun) {
  const bool sends = begun.kind == Operation::send;
  if (!is_on_device(begun.call.data)) [[likely]]
    return packed_task(calls_.core(), begun.call, sends);
  return device_task(devices_, begun.call, sends);
}

template <class F>
auto MessageCalls::with_errors(const Begun& begun, GroupErrors::Known known, F&& f) {
  try {
    return f();
  } catch (...) {
    std::rethrow_exception(calls_.errors().of_thrown(begun.operation, begun.call.sequence, known).error);
  }
}

Arrival MessageCalls::wait(Task& task, const Begun& begun, const Record& record) {
  if (!task.advance()) BlockingWaiter(calls_.errors(), begun.operation, begun.call.sequence, calls_.timeout_of(begun.options), record).wait(task);
  return task.arrival();
}

Arrival MessageCalls::wait(const StatePtr& state) {
  calls_.finish(*state);
  return state->arrival;
}

Arrival MessageCalls::carry_out(const Begun& begun, const Record& record, const MakeTask& make) {
  const bool on_device = is_on_device(begun.call.data);
  if (on_device) calls_.get_ready(begun.operation, begun.call.sequence);
  if (calls_.lane()->has_messages()) return wait(calls_.progress().submit(calls_.lane(), Lane::Kind::message, pending(begun, record), make));
  StatePtr left;  // to the device
  const Arrival arrival = with_errors(begun, on_device ? GroupErrors::Known::to_the_peer : GroupErrors::Known::to_this_rank, [&] {
    std::optional<Pending> watched;
    if (on_device) watched = pending(begun, record);
    const auto task = make();
    const Arrival of_task = wait(*task, begun, record);
    if (on_device) left = calls_.watch(*task, std::move(*watched));
    return of_task;
  });
  if (left) left->order_stream();
  return arrival;
}

bool MessageCalls::is_eager(const TensorView& data) const {
  const std::size_t bytes = data.bytes();
  return bytes <= base::eager_bytes && calls_.lane()->buffered.load() + buffered_cost + bytes <= most_buffered &&
         !lies_on_device(calls_.facts(), data);
}

MessageCalls::Exit MessageCalls::exit_of(const MessageCall& call) {
  if (!is_eager(call.data)) return Exit::waits;
  return pays_to_lend(call) ? Exit::lent : Exit::eagerly;
}

// Where ranks share a processor, the receiver does not come while this rank waits for it.
bool MessageCalls::pays_to_lend(const MessageCall& call) {
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
  if (!call.data.is_contiguous() || is_on_device(call.data)) return false;
  return calls_.progress().exclusively([&] { return calls_.core().messages().leaves_to_receiver(call); });
}

// Where there is no room, what is pending here may be what the peer waits for, and a peer that reads soon makes room in less time than a copy of the
// message for later would take.
bool MessageCalls::leaves(const Begun& sent) {
  using Tried = engines::MessageCarrier::Tried;
  const MessageCall& call = sent.call;
  std::size_t looks = calls_.errors().coordination().is_crowded() ? 0 : call.data.bytes() / bytes_of_a_look;
  for (;; --looks) {
    const bool beside_others = calls_.lane()->has_messages();
    const auto try_beside_others = [&] {
      if (calls_.lane()->is_over()) std::rethrow_exception(calls_.errors().error_when_over(sent.operation, call.sequence));
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

// A small send that nobody takes at once goes on without its caller. If it fails then, the next call throws its error.
void MessageCalls::send_eagerly(const Begun& sent, const Record& record) {
  if (sent.call.data.is_contiguous() && leaves(sent)) return;
  const auto leave_behind = [&](const MakeTask& make_detached) {
    calls_.get_ready(sent.operation, sent.call.sequence);
    const std::size_t kept = buffered_cost + sent.call.data.bytes();
    calls_.lane()->buffered.fetch_add(kept);
    static_cast<void>(calls_.progress().submit(calls_.lane(), Lane::Kind::message, pending(sent, {}, kept), make_detached).work());
  };
  if (calls_.lane()->has_messages()) {
    return leave_behind([&] {
      auto task = task_of(sent);
      task->detach();
      return task;
    });
  }
  with_errors(sent, GroupErrors::Known::to_this_rank, [&] {
    auto task = task_of(sent);
    if (task->advance()) return;
    if (task->detach()) leave_behind([&] { return std::move(task); });
    else wait(*task, sent, record);
  });
}

bool MessageCalls::is_plain_receive(const MessageCall& call, Operation operation) {
  return operation == Operation::recv && call.data.is_contiguous() && !is_on_device(call.data);
}

PendingReceive* MessageCalls::post(const Begun& received, const Record& record, std::uint64_t other) {
  calls_.get_ready(received.operation, received.call.sequence);
  PendingReceive* const receive = PendingReceive::make(
      calls_.shared_progress(), calls_.lane(),
      {.operation = received.operation, .where = received.options.where, .record = record, .timeout = calls_.timeout_of(received.options)}, other);
  calls_.progress().post(*calls_.lane(), *receive, calls_.errors(), calls_.core().messages(), received.call);
  return receive;
}

Arrival MessageCalls::receive(const Begun& received, const Record& record) {
  if (calls_.lane()->has_messages()) return wait(StatePtr(post(received, record, detail::WorkState::holder)));
  return with_errors(received, GroupErrors::Known::to_this_rank, [&] {
    RecvTask task(calls_.core().messages(), received.call);
    return wait(task, received, record);
  });
}

MessageInfo MessageCalls::run(const detail::MessageRequest& request, const CallOptions& options) {
  const Entry entry = calls_.enter(detail::name_of(request));
  const Begun begun = begin(request, options);
  recorder::Recording recording(calls_.recorder(), facts_of(begun));
  MessageInfo info;
  if (begun.kind == Operation::send && is_eager(begun.call.data) && (calls_.lane()->has_messages() || !pays_to_lend(begun.call)))
    send_eagerly(begun, recording.call());
  else if (is_plain_receive(begun.call, begun.kind)) info = info_of(receive(begun, recording.call()));
  else info = info_of(carry_out(begun, recording.call(), [&] { return task_of(begun); }));
  recording.succeed();
  return info;
}

Work MessageCalls::start(const detail::MessageRequest& request, const CallOptions& options) {
  const Entry entry = calls_.enter(detail::name_of(request));
  const Begun begun = begin(request, options);
  if (is_plain_receive(begun.call, begun.kind)) return Work(post(begun, calls_.recorder().queue_and_run(facts_of(begun)), detail::WorkState::work));
  const Exit exit = begun.kind == Operation::send ? exit_of(begun.call) : Exit::waits;
  if (exit == Exit::eagerly) {
    recorder::Recording recording(calls_.recorder(), facts_of(begun));
    send_eagerly(begun, recording.call());
    recording.succeed();
    return {};
  }
  calls_.get_ready(begun.operation, begun.call.sequence);
  const bool needs_no_thread = exit == Exit::lent || (begun.kind == Operation::send && leaves_to_receiver(begun.call));
  const auto make = [&] { return task_of(begun); };
  return calls_.progress()
      .submit(calls_.lane(), Lane::Kind::message, pending(begun, calls_.recorder().queue(facts_of(begun))), std::ref(make),
              needs_no_thread ? Progress::Thread::later : Progress::Thread::at_once)
      .work();
}

bool MessageCalls::may_go_both_ways(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) const {
  if (out.data.bytes() < least_lent || calls_.lane()->has_messages() || lies_on_device(calls_.facts(), out.data) || !out.data.is_contiguous())
    return false;
  return is_plain_receive(check_message(calls_.facts(), in, options), in.operation);
}

// A small message leaves without its receiver. One that had better be lent does not, where its receiver sends as well and does not look meanwhile.
std::optional<int> MessageCalls::exchange(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) {
  const Entry entry = calls_.enter(detail::name_of(in));
  if (exit_of(check_message(calls_.facts(), out, options)) == Exit::eagerly) return std::nullopt;
  const Begun sent = begin(out, options), received = begin(in, options);
  recorder::Recording sending(calls_.recorder(), facts_of(sent)), receiving(calls_.recorder(), facts_of(received));
  const Arrival arrival = with_errors(received, GroupErrors::Known::to_this_rank, [&] {
    BothWays task(calls_.core().messages(), received.call, [&] { return task_of(sent); });
    return wait(task, received, receiving.call());
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
  if (is_eager(out.data)) {
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
  const Entry entry = calls_.enter(detail::name_of(request));
  const Begun begun = begin(request, options);
  std::optional<recorder::Recording> recording;
  if (waits) recording.emplace(calls_.recorder(), facts_of(begun));
  const auto look = [&] {
    return carry_out(begun, recording ? recording->call() : Record{}, [&]() -> std::unique_ptr<Task> {
      auto task = calls_.core().start_probe(begun.call);
      if (waits) return task;
      return std::make_unique<Glance>(std::move(task));
    });
  };
  Arrival arrival = look();
  // A program that looks again and again learns of a peer that is gone, as one that waits does. Messages that the peer sent before still count.
  if (const auto now = base::Clock::now(); arrival.source < 0 && now >= next_look_) {
    next_look_ = now + look_period;
    const std::vector<int> sources = calls_.core().messages().possible_sources(begun.call.peer);
    const auto failure = calls_.errors().coordination().look_for_failures(sources, begun.call.peer < 0);
    if (failure) arrival = look();
    if (failure && arrival.source < 0) std::rethrow_exception(calls_.errors().fail(*failure, begun.operation, begun.call.sequence));
  }
  if (arrival.source < 0) return std::nullopt;
  if (recording) recording->succeed();
  if (arrival.kind == engines::kind_of(DType::uint64, engines::device_announcement)) {
    throw Unsupported("the next message of rank " + std::to_string(arrival.source) + " (tag " + std::to_string(arrival.tag) + ") is of device memory",
                      {.operation = std::string(begun.operation),
                       .group = calls_.facts().name(),
                       .sequence = begun.call.sequence,
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

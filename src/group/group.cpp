#include "group/group.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "ground/log.h"
#include "group/check.h"
#include "group/packing.h"
#include "group/waiter.h"

namespace unisono::group {
namespace {

// Up to this size a message leaves its sender's hands without a matching receive.
constexpr std::size_t eager_bytes = std::size_t{64} << 10;
// What may be kept for receivers that do not come, per group; then senders wait like those of large messages.
constexpr std::size_t most_buffered = std::size_t{64} << 20;

std::atomic<int> active_contexts{0};
std::atomic<bool> forked_child{false};

}  // namespace

bool in_forked_child() noexcept { return forked_child.load(std::memory_order_relaxed); }

void guard_against_fork(bool active) {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    if (active_contexts.load() > 0) forked_child.store(true);
  });
  static_cast<void>(registered);
  active_contexts.fetch_add(active ? 1 : -1);
}

/// One thread inside, on a group that is open.
class Group::Entry {
 public:
  Entry(Group& group, std::string_view operation) : group_(group) {
    if (in_forked_child()) {
      throw NotInitialized("this process was forked from one that is initialized; it has no part in the group",
                           {.operation = std::string(operation), .group = group.name(), .hint = "start processes before initialize, or exec after fork"});
    }
    if (!group.is_open()) {
      throw NotInitialized("the group is closed: its context was finalized", {.operation = std::string(operation), .group = group.name()});
    }
    if (group.busy_.exchange(true, std::memory_order_acquire)) {
      throw InvalidArgument("concurrent use: another thread is in a call on this group",
                            {.operation = std::string(operation),
                             .group = group.name(),
                             .rank = group.rank(),
                             .hint = "use one group per thread; groups are independent of each other"});
    }
  }
  ~Entry() { group_.busy_.store(false, std::memory_order_release); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  Group& group_;
};

Group::Group(GroupParts parts) : parts_(std::move(parts)), lane_(std::make_shared<Lane>()) { parts_.progress->add(lane_); }

Group::~Group() { parts_.progress->remove(lane_); }

const std::string& Group::host_name(int rank) const {
  static const std::string unknown;
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < parts_.host_names.size() ? parts_.host_names[index] : unknown;
}

CollectiveCall Group::check(const detail::Request& request, const CallOptions& options) const {
  return check_collective(*this, request, options);
}
MessageCall Group::check(const detail::MessageRequest& request, const CallOptions& options) const {
  return check_message(*this, request, options);
}

void Group::run(const detail::Request& request, const CallOptions& options) {
  const Entry entry(*this, to_string(request.operation));
  CollectiveCall call = check(request, options);
  if (lane_->has_deferred.load(std::memory_order_acquire)) {
    if (auto error = lane_->take_deferred()) std::rethrow_exception(error);
  }
  call.sequence = ++sequence_;
  const std::string_view operation = to_string(call.operation);
  if (auto failure = parts_.backend->failure()) std::rethrow_exception(fail(*failure, operation, call.sequence));
  Packing packing(call);
  if (lane_->pending_collectives.load(std::memory_order_acquire) > 0) {
    // Behind what is under way, in the order of the calls.
    auto pending = std::make_unique<Pending>(Pending{.state = nullptr,
                                                     .task = nullptr,
                                                     .group = shared_from_this(),
                                                     .operation = std::string(operation),
                                                     .sequence = call.sequence,
                                                     .deadline = ground::Deadline(timeout_of(options))});
    const auto state = parts_.progress->submit(lane_, true, std::move(pending), [&] { return parts_.backend->start(call); });
    parts_.progress->wait(*state, nullptr);
    if (state->error) std::rethrow_exception(state->error);
  } else {
    try {
      BlockingWaiter waiter(*this, operation, call.sequence, timeout_of(options));
      parts_.backend->run(call, waiter);
    } catch (const Mismatch&) {
      std::rethrow_exception(complete(std::current_exception(), operation, call.sequence));
    }
  }
  packing.finish();
}

Work Group::start(const detail::Request& request, const CallOptions& options) {
  const Entry entry(*this, to_string(request.operation));
  CollectiveCall call = check(request, options);
  if (lane_->has_deferred.load(std::memory_order_acquire)) {
    if (auto error = lane_->take_deferred()) std::rethrow_exception(error);
  }
  call.sequence = ++sequence_;
  const std::string operation(to_string(call.operation));
  if (auto failure = parts_.backend->failure()) std::rethrow_exception(fail(*failure, operation, call.sequence));
  auto pending = std::make_unique<Pending>(Pending{.state = nullptr,
                                                   .task = nullptr,
                                                   .group = shared_from_this(),
                                                   .operation = operation,
                                                   .sequence = call.sequence,
                                                   .deadline = ground::Deadline(timeout_of(options))});
  return Work(parts_.progress->submit(lane_, true, std::move(pending), [&] { return packed_task(*parts_.backend, call); }));
}

int Group::run(const detail::MessageRequest& request, const CallOptions& options) {
  const Entry entry(*this, to_string(request.operation));
  MessageCall call = check(request, options);
  if (lane_->has_deferred.load(std::memory_order_acquire)) {
    if (auto error = lane_->take_deferred()) std::rethrow_exception(error);
  }
  call.sequence = ++sequence_;
  const std::string_view operation = to_string(request.operation);
  if (auto failure = parts_.backend->failure()) std::rethrow_exception(fail(*failure, operation, call.sequence));
  const bool sends = request.operation == Operation::send;
  const std::size_t bytes = call.data.bytes();
  const bool may_buffer = sends && bytes <= eager_bytes && lane_->buffered.load() + bytes <= most_buffered;
  const auto submit = [&](std::unique_ptr<Task> task, std::size_t buffered) {
    auto pending = std::make_unique<Pending>(Pending{.state = nullptr,
                                                     .task = nullptr,
                                                     .group = shared_from_this(),
                                                     .operation = std::string(operation),
                                                     .sequence = call.sequence,
                                                     .deadline = ground::Deadline(timeout_of(options)),
                                                     .buffered = buffered});
    return parts_.progress->submit(lane_, false, std::move(pending),
                                   [&] { return task ? std::move(task) : packed_task(*parts_.backend, call, sends); });
  };
  // A send that nobody takes at once goes on without its caller; what then happens to it, the next call says.
  const auto leave_behind = [&](const std::shared_ptr<detail::WorkState>& state) { static_cast<void>(Work(state)); };

  if (lane_->pending_messages.load(std::memory_order_acquire) > 0) {
    if (may_buffer) {
      lane_->buffered.fetch_add(bytes);
      const auto state = parts_.progress->submit(
          lane_, false,
          std::make_unique<Pending>(Pending{.state = nullptr,
                                            .task = nullptr,
                                            .group = shared_from_this(),
                                            .operation = std::string(operation),
                                            .sequence = call.sequence,
                                            .deadline = ground::Deadline(timeout_of(options)),
                                            .buffered = bytes}),
          [&] {
            auto task = packed_task(*parts_.backend, call, sends);
            task->detach();
            return task;
          });
      leave_behind(state);
      return -1;
    }
    const auto state = submit(nullptr, 0);
    parts_.progress->wait(*state, nullptr);
    const std::lock_guard lock(state->mutex);
    if (state->error) std::rethrow_exception(state->error);
    return state->source;
  }
  try {
    auto task = packed_task(*parts_.backend, call, sends);
    if (!task->advance()) {
      if (may_buffer && task->detach()) {
        lane_->buffered.fetch_add(bytes);
        leave_behind(submit(std::move(task), bytes));
        return -1;
      }
      BlockingWaiter(*this, operation, call.sequence, timeout_of(options)).wait(*task);
    }
    return task->source();
  } catch (const Mismatch&) {
    std::rethrow_exception(complete(std::current_exception(), operation, call.sequence));
  }
}

Work Group::start(const detail::MessageRequest& request, const CallOptions& options) {
  const Entry entry(*this, to_string(request.operation));
  MessageCall call = check(request, options);
  if (lane_->has_deferred.load(std::memory_order_acquire)) {
    if (auto error = lane_->take_deferred()) std::rethrow_exception(error);
  }
  call.sequence = ++sequence_;
  const std::string operation(to_string(request.operation));
  if (auto failure = parts_.backend->failure()) std::rethrow_exception(fail(*failure, operation, call.sequence));
  const bool sends = request.operation == Operation::send;
  const std::size_t bytes = call.data.bytes();
  const bool buffer = sends && bytes <= eager_bytes && lane_->buffered.load() + bytes <= most_buffered;
  if (buffer) lane_->buffered.fetch_add(bytes);
  auto pending = std::make_unique<Pending>(Pending{.state = nullptr,
                                                   .task = nullptr,
                                                   .group = shared_from_this(),
                                                   .operation = operation,
                                                   .sequence = call.sequence,
                                                   .deadline = ground::Deadline(timeout_of(options)),
                                                   .buffered = buffer ? bytes : 0});
  return Work(parts_.progress->submit(lane_, false, std::move(pending), [&] { return packed_task(*parts_.backend, call, sends); }));
}

void Group::abort(std::string_view reason) {
  if (in_forked_child() || !is_open()) return;
  fail(Failure{.kind = Failure::Kind::peer_failed,
               .cause = PeerFailed::Cause::aborted,
               .culprit = rank(),
               .missing = {},
               .message = "rank " + std::to_string(rank()) + " gave up: " + std::string(reason)},
       "abort", 0);
}

void Group::close(std::chrono::milliseconds at_most) {
  if (!open_.exchange(false)) return;
  if (!parts_.backend->failure()) parts_.progress->drain(*lane_, ground::Deadline(at_most));
  parts_.backend->leave();
}

void Group::drop() {
  if (open_.exchange(false)) parts_.backend->leave();
}

std::exception_ptr Group::fail(const Failure& failure, std::string_view operation, std::uint64_t sequence) {
  parts_.backend->poison(failure);
  const Failure first = parts_.backend->failure().value_or(failure);
  if (!reported_.exchange(true) && parts_.on_failure) parts_.on_failure(first);
  return error_of(first, operation, sequence);
}

std::exception_ptr Group::error_of(const Failure& failure, std::string_view operation, std::uint64_t sequence) const {
  ErrorInfo info;
  info.operation = operation;
  info.group = name();
  info.sequence = sequence;
  info.rank = rank();
  if (failure.culprit >= 0) {
    info.culprit = failure.culprit;
    info.host = host_name(failure.culprit);
  }
  if (failure.kind == Failure::Kind::timeout) {
    info.hint = "the group is over; look at what the missing ranks are doing";
    return std::make_exception_ptr(Timeout(failure.message, std::move(info), failure.missing));
  }
  info.hint = "the group is over; shrink_group makes one of the survivors";
  return std::make_exception_ptr(PeerFailed(failure.message, std::move(info), failure.cause));
}

std::exception_ptr Group::complete(std::exception_ptr error, std::string_view operation, std::uint64_t sequence) const {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Mismatch& mismatch) {
    ErrorInfo info = mismatch.info();
    info.operation = operation;
    info.group = name();
    info.sequence = sequence;
    info.rank = rank();
    if (info.culprit) info.host = host_name(*info.culprit);
    return std::make_exception_ptr(Mismatch(mismatch.message(), std::move(info)));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace unisono::group

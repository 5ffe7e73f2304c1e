#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "group/fork_guard.h"
#include "group/group_facts.h"
#include "group/progress/progress.h"
#include "recorder/recorder.h"
#include "unisono/error.h"
#include "unisono/process_group.h"

namespace unisono::group {

/// Lets one thread into a group that is open. Throws where another one is inside, where the group is closed, and in a child of fork.
class Entry {
 public:
  /// `busy`: of the group, whether a thread is in it.
  Entry(const GroupErrors& group, std::atomic<bool>& busy, std::string_view operation) : busy_(&busy) {
    if (in_forked_child()) {
      throw NotInitialized(
          "this process was forked from one that is initialized; it has no part in the group",
          {.operation = std::string(operation), .group = group.facts().name(), .hint = "start processes before initialize, or exec after fork"});
    }
    if (!group.is_open()) {
      throw NotInitialized("the group is closed: its context was finalized", {.operation = std::string(operation), .group = group.facts().name()});
    }
    if (busy.exchange(true, std::memory_order_acquire)) {
      throw InvalidArgument("concurrent use: another thread is in a call on this group",
                            {.operation = std::string(operation),
                             .group = group.facts().name(),
                             .rank = group.facts().rank(),
                             .hint = "use one group per thread; groups are independent of each other"});
    }
  }
  ~Entry() { leave(); }
  /// Lets other threads in from now on.
  void leave() {
    if (std::atomic<bool>* const busy = std::exchange(busy_, nullptr)) busy->store(false, std::memory_order_release);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  std::atomic<bool>* busy_;
};

/// What every call of a group goes through, whatever it is: it enters alone, takes its number, is recorded, and waits in the group's lane.
class GroupCalls {
 public:
  /// All have to outlive it.
  GroupCalls(const GroupParts& parts, GroupFacts& facts, GroupErrors& errors);
  ~GroupCalls();
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;

  const GroupFacts& facts() const { return facts_; }
  GroupErrors& errors() const { return errors_; }
  GroupCore& core() const { return *parts_.core; }
  Progress& progress() const { return *parts_.progress; }
  const std::shared_ptr<Progress>& shared_progress() const { return parts_.progress; }
  const std::shared_ptr<Lane>& lane() const { return lane_; }
  recorder::Recorder& recorder() const { return *parts_.recorder; }
  std::chrono::milliseconds timeout_of(const CallOptions& options) const { return base::clamped(options.timeout.value_or(parts_.timeout)); }

  /// Lets the calling thread in, alone. Throws if another one is inside, if the group is closed, and in a child of fork.
  Entry enter(std::string_view operation) { return {errors_, busy_, operation}; }
  /// Begins a call that is known to be well-formed: throws the error that is left over from before, takes a number.
  std::uint64_t begin(std::string_view operation);
  void throw_deferred();
  /// Prepares for an operation that goes on without its caller. If that cannot be, the group is over, so that the others do not wait.
  void get_ready(std::string_view operation, std::uint64_t sequence);

  /// Inline: every call of a few bytes goes through it.
  recorder::CallFacts facts_of(const CollectiveCall& call, const CallOptions& options) const {
    return {.operation = call.operation,
            .label = call.label,
            .group = number_,
            .sequence = call.sequence,
            .bytes = call.in.numel() != 0 ? call.in.bytes() : call.out.bytes(),
            .dtype = call.in.dtype(),
            .peer = facts_.in_record(call.root),
            .where = options.where};
  }
  recorder::CallFacts facts_of(const MessageCall& call, Operation operation, const CallOptions& options) const;
  Pending pending(std::string_view operation, std::uint64_t sequence, const CallOptions& options, const recorder::Recorder::Call& record,
                  std::size_t buffered = 0);
  /// Has the device watched that has yet to finish a task that is done. Null: no device has anything to finish.
  StatePtr watch(const Task& task, Pending pending);
  /// Waits for a blocking call. Everything that is put on the caller's current stream afterwards comes after it.
  void finish(detail::WorkState& state);

 private:
  const GroupParts& parts_;
  GroupFacts& facts_;
  GroupErrors& errors_;
  const std::uint16_t number_;  // in the record
  const std::shared_ptr<Lane> lane_;
  std::atomic<bool> busy_{false};
};

}  // namespace unisono::group

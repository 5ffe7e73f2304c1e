#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "engines/message.h"
#include "group/messages/pending_receive.h"
#include "group/progress/pending.h"
#include "unisono/failure.h"

namespace unisono::group {

using engines::MessageCall;

/// The state of a lane that concerns all of its operations, under the lock.
struct LaneState {
  const std::atomic<int>* contenders = nullptr;  // how many threads wait for the lock
  bool is_over = false;                          // an operation has ended with its group
  bool wakes_waiter = true;                      // the notifier is notified of all that is pending
  bool is_wanted() const { return contenders != nullptr && contenders->load(std::memory_order_relaxed) > 0; }
};

/// The receives of a lane: windows of small messages, so each costs as little as it can.
class LaneReceives {
 public:
  LaneReceives(LaneState& lane, DeferredError& deferred) : lane_(lane), deferred_(deferred) {}

  bool empty() const { return first_ == nullptr; }
  int count() const { return count_; }
  /// Returns the group of all receives. Call it only if there are any.
  GroupErrors& group() const { return *group_; }
  /// Adds a receive, and looks for its message if no earlier one does so.
  void post(PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call, Remains& remains);
  /// Advances all as far as they go; true if anything is done.
  bool step(Remains& remains);
  /// Takes a receive back. Returns false where it has a message; nothing for an operation that is no receive of these.
  std::optional<bool> cancel(const detail::WorkState& state, Remains& remains);
  /// Looks for failures and deadlines.
  std::optional<Failure> look();
  void end(const ErrorOf& error_of, Remains& remains);
  void visit(const std::function<void(const Ended&)>& look) const;

 private:
  /// Advances the receives that have been given a message; where another thread wants the lock, some of them.
  enum class LargeCopies { now, later };
  bool advance_given(Remains& remains, LargeCopies large);
  /// Has `step` advance a receive whose message has come in part.
  void keep_moving(PendingReceive& receive);
  bool advance(PendingReceive& receive, Remains& remains);
  void finish(PendingReceive& receive, std::exception_ptr error, Remains& remains);
  Ended ended(const PendingReceive& receive) const;

  LaneState& lane_;
  DeferredError& deferred_;
  PendingReceive *first_ = nullptr, *last_ = nullptr;
  int count_ = 0, moving_count_ = 0;
  GroupErrors* group_ = nullptr;
  MessageMatcher* messages_ = nullptr;
  std::shared_ptr<GroupErrors> kept_group_;  // while there are any and no call of the group lasts
};

}  // namespace unisono::group

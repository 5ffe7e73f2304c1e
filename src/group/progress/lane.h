#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/deadline.h"
#include "engines/message.h"
#include "group/messages/recv_task.h"
#include "group/progress/pending.h"
#include "unisono/engine.h"
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

/// The asynchronous operations of one group: collectives in the order of the calls, messages side by side, and beside both the operations that a
/// device has yet to finish. The functions of the second part are called under the lock of the group's Progress.
class Lane {
 public:
  enum class Kind { collective, message };
  /// Whether the clock is looked at, for deadlines and peers that are gone.
  enum class Look { no, yes };

  // From any thread.

  /// Return true where a call of that kind has to go through the lane: behind others, or because the lane is over.
  bool has_collectives() const { return collective_count_.load(std::memory_order_acquire) > 0; }
  bool has_messages() const { return message_count_.load(std::memory_order_acquire) > 0; }
  /// All that is pending, devices included.
  int count() const { return count_.load(); }
  /// Of that, what somebody has to advance although no caller comes: all but receives, sends that lend their memory for a moment, and blocking calls
  /// whose rest is the device's.
  int urgent_count() const { return urgent_count_.load(std::memory_order_relaxed); }
  /// The end of the last collective that a device has yet to finish. Null: there is none.
  std::shared_ptr<DeviceEvent> last_on_device();
  std::atomic<std::size_t> buffered{0};     // that all detached sends take
  std::atomic<std::uint64_t> last_call{0};  // the number of the group's last call, which a Work asks for that may outlive the group
  DeferredError deferred;

  // Under the lock.

  /// `contenders`: how many threads wait for the lock. A thread that copies messages for a lane lets them come between two of these.
  void serve(const std::atomic<int>& contenders) { state_.contenders = &contenders; }
  /// Returns true once an operation has ended with its group. It may have ended half done. The peers that wait for the rest of it would take the
  /// first data of a later operation for that. So no operation begins any more, even if its caller has found the group sound a moment ago.
  bool is_over() const { return state_.is_over; }
  /// Adds an operation and advances it as far as it goes at once: often that is all. Where the lane is over it ends the operation, which needs no
  /// task then.
  void add(Kind kind, Pending pending, Remains& remains);
  /// Adds a receive, whose holder the lane becomes, and looks for its message if no earlier one does so.
  void post(PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call, Remains& remains) {
    receives_.post(receive, group, messages, call, remains);
    set_counts();
    if (state_.is_over) end_rest(remains);
  }
  /// Adds an operation that is enqueued and that nobody waits for: its state has the completion, its task watches the device. Now and then
  /// it ends those before it that the device has finished meanwhile.
  void add_watched(Pending pending, Remains& remains);
  /// Advances everything as far as it goes, and looks for failures now and then. True if anything is done.
  bool poll(Remains& remains, Look look = Look::yes);
  /// Ends everything, each operation with its error.
  void end(const ErrorOf& error_of, Remains& remains);
  /// Takes a receive back. Returns false where it has a message, and for an operation of another kind, or of none that is pending here.
  bool cancel(const detail::WorkState& state, Remains& remains);
  /// Calls the function for everything that is pending.
  void visit(const std::function<void(const Ended&)>& look);
  /// Forgets everything.
  void clear();
  /// Whether the notifier is notified of all that is pending.
  bool wakes_waiter() const { return state_.wakes_waiter; }

 private:
  using List = std::list<Pending>;
  enum class Progressed { no, to_device, to_end };

  bool step(Remains& remains);
  bool step_collectives(Remains& remains);
  void share_step();
  bool step_each(List& list, Remains& remains);
  /// Advances one operation of a list. True if it leaves the list.
  bool step_one(List& list, List::iterator it, Remains& remains);
  Progressed advance_in_turn(Pending& pending, Remains& remains);
  Progressed advance(Pending& pending, Remains& remains);
  void end_passed(Remains& remains);
  void leave_to_device(Pending& pending, Remains& remains);
  void finish(Pending& pending, std::exception_ptr error, Remains& remains);
  GroupErrors& any_group() const;
  std::optional<Failure> look_at_all();
  void look(Remains& remains);
  void fail(const Failure& failure, Remains& remains);
  /// Ends what is left of a lane that is over.
  void end_rest(Remains& remains);
  void set_counts();

  LaneState state_;
  List collectives_;
  List messages_;
  List on_device_;
  LaneReceives receives_{state_, deferred};
  std::atomic<int> collective_count_{0};
  std::atomic<int> message_count_{0};
  std::atomic<int> count_{0};
  std::atomic<int> urgent_count_{0};
  int leisurely_count_ = 0;
  base::Clock::time_point next_look_{};
  std::mutex device_mutex_;  // a blocking call on a device asks without the lock
  std::shared_ptr<DeviceEvent> last_on_device_;
};

}  // namespace unisono::group

#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "base/notifier.h"
#include "base/deadline.h"
#include "base/thread.h"
#include "unisono/engine.h"
#include "unisono/work.h"

namespace unisono::group {
class Backoff;
class Group;
class Progress;
struct Lane;
}  // namespace unisono::group

namespace unisono::detail {

/// What a Work refers to.
struct WorkState {
  std::atomic<bool> done{false};
  std::mutex mutex;  // of what follows
  std::exception_ptr error;
  std::shared_ptr<DeviceEvent> completion;  // set before it is done: then it is enqueued, and this says when the device is through
  bool settled = false;                     // the device is, or something went wrong
  bool seen = false;                        // somebody has asked for the error
  bool dropped = false;                     // nobody can any more
  std::uint64_t dropped_after = 0;          // the group's last call when that happened
  Arrival arrival;                          // of a receive
  std::vector<std::function<void()>> then;  // what on_completion was given
  std::shared_ptr<group::Progress> progress;
  std::shared_ptr<group::Lane> lane;

  std::exception_ptr error_now() {
    const std::lock_guard lock(mutex);
    return error;
  }
  /// Over, on a device as well. Under the mutex.
  bool is_settled() const { return done.load(std::memory_order_acquire) && (!completion || settled); }
  /// What is put on the caller's current stream from now on comes after it.
  void order_stream();
};

}  // namespace unisono::detail

namespace unisono::group {

/// Calls what `on_completion` was given.
void call_back(const std::function<void()>& callback) noexcept;

/// An asynchronous operation on its way.
struct Pending {
  std::shared_ptr<detail::WorkState> state;
  std::unique_ptr<Task> task;
  std::shared_ptr<Group> group;  // stays alive until it is done
  std::string operation;
  std::uint64_t sequence = 0;
  std::source_location where = {};  // of the call, for its error
  base::Deadline deadline;
  bool collective = false;
  bool begun = false;        // a collective that is first in its queue: the peers may have seen something of it
  std::size_t buffered = 0;  // bytes of a send that was detached from its caller
  bool warned = false;
};

/// The asynchronous operations of one group: collectives in the order of the calls, messages side by side.
struct Lane {
  enum class Kind { collective, message };
  std::deque<std::unique_ptr<Pending>> collectives;
  std::list<std::unique_ptr<Pending>> messages;
  std::atomic<int> pending_collectives{0};
  std::atomic<int> pending_messages{0};
  std::atomic<std::size_t> buffered{0};
  std::atomic<std::uint64_t> last_call{0};  // its sequence number
  std::mutex deferred_mutex;
  std::exception_ptr deferred;  // of an operation whose Work was dropped
  std::uint64_t deferred_after = 0;
  std::atomic<bool> has_deferred{false};
  base::Clock::time_point next_look{};
  std::shared_ptr<DeviceEvent> last_on_device;  // of the last collective that a device has yet to finish
  bool wakes = true;                            // the notifier is notified of all that is pending

  /// The error of a dropped operation belongs to the first call after the drop. Of a collective that holds also if that call is queued already:
  /// whether a rank learns of the error early or late, the same call fails on all of them, and is carried out on none.
  static constexpr std::uint64_t no_queued_call = ~std::uint64_t{0};
  void defer(std::exception_ptr error, std::uint64_t after);
  std::exception_ptr take_deferred();
  std::exception_ptr take_deferred_for(std::uint64_t queued_call);
};

/// Drives asynchronous operations: one per process, or per rank where ranks are threads. Whoever waits for a Work drives all that is pending
/// meanwhile; only when nobody waits does the one progress thread, started at the first asynchronous call.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  explicit Progress(std::string rank_text) : rank_text_(std::move(rank_text)) {}
  ~Progress();

  /// The notifier of this rank, and whether ranks outnumber processors.
  void configure(base::Notifier* notifier, bool crowded);
  void add(const std::shared_ptr<Lane>& lane);
  void remove(const std::shared_ptr<Lane>& lane);

  /// Starts the thread, where it does not run yet: what is submitted then is driven, whoever waits for it. Error where there is none to be had.
  void get_ready();
  /// `make` creates the task where no other thread drives the lane. After get_ready, as nobody waits for it.
  std::shared_ptr<detail::WorkState> submit(const std::shared_ptr<Lane>& lane, Lane::Kind kind, std::unique_ptr<Pending> pending,
                                            const std::function<std::unique_ptr<Task>()>& make);
  /// The same by a caller who waits for it at once, so that no other thread is woken. `issued`: it has its place in the lane. What the device has yet
  /// to do then needs get_ready.
  std::shared_ptr<detail::WorkState> carry_out(const std::shared_ptr<Lane>& lane, Lane::Kind kind, std::unique_ptr<Pending> pending,
                                               const std::function<std::unique_ptr<Task>()>& make, const std::function<void()>& issued);
  /// True when it is done; false when the deadline has passed first.
  bool wait(detail::WorkState& state, const base::Deadline* deadline);
  /// The same, for a condition that what is pending brings about.
  bool wait_until(const std::function<bool()>& done, const base::Deadline& deadline);
  /// Waits until one of them is done.
  void wait_any(const std::function<bool()>& any_done);
  /// Waits until the lane is empty; false if that takes longer.
  bool drain(Lane& lane, const base::Deadline& deadline);
  /// Ends what is pending in the lane, each with its error.
  void end(Lane& lane, const std::function<std::exception_ptr(const Pending&)>& error_of);
  /// Ends the thread. What is pending stays as it is.
  void stop();

 private:
  class Driver;
  std::shared_ptr<detail::WorkState> put(const std::shared_ptr<Lane>& lane, Lane::Kind kind, std::unique_ptr<Pending> pending,
                                         const std::function<std::unique_ptr<Task>()>& make, bool caller_waits);
  template <class Done>
  bool drive(Done&& done, const base::Deadline* deadline);
  class Locked;
  std::chrono::nanoseconds longest_sleep() const;
  bool poll();
  bool poll(Lane& lane);
  bool step(Lane& lane);
  bool advance(Lane& lane, Pending& pending);
  void look(Lane& lane);
  void finish(Lane& lane, Pending& pending, std::exception_ptr error);
  /// Its task is done, and the device is not: whoever waits for it goes on, and the device is watched.
  void watch(Pending& pending);
  void fail_all(Lane& lane, const Failure& failure);
  void clear(Lane& lane, const std::function<std::exception_ptr(const Pending&)>& error_of);
  void loop();
  void turn(Backoff& backoff);
  void give_up(const std::exception_ptr& error) noexcept;
  void wake_thread();

  std::string rank_text_;
  std::mutex mutex_;  // of the lanes and their tasks
  std::condition_variable work_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  /// What is left of operations that are done, for when the lock is released: a group may end with its last operation, and callbacks may call
  /// anything.
  struct Retired {
    std::vector<std::shared_ptr<Group>> groups;
    std::vector<std::function<void()>> callbacks;
  } retired_;
  std::atomic<int> pending_{0};
  std::atomic<int> drivers_{0};
  std::atomic<bool> all_wake_{true};  // of what was pending when it was last looked at
  std::atomic<bool> stop_{false};
  base::Notifier* notifier_ = nullptr;
  bool crowded_ = true;
  base::Thread thread_;
};

}  // namespace unisono::group

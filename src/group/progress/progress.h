#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/neighbours.h"
#include "base/notifier.h"
#include "group/progress/lane.h"
#include "group/progress/progress_thread.h"
#include "unisono/engine.h"

namespace unisono::group {

/// Advances the asynchronous operations of all groups: one per process, or per rank where ranks are threads. A caller that waits for an operation
/// advances all that is pending meanwhile; the thread does so only when nobody waits.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  explicit Progress(std::string rank_text) : thread_(*this, std::move(rank_text)) {}
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `notifier`: of this rank. `crowded`: ranks outnumber processors. `neighbours`: see Backoff.
  void configure(base::Notifier* notifier, bool crowded, base::Neighbours* neighbours);
  void add(const std::shared_ptr<Lane>& lane);
  void remove(const std::shared_ptr<Lane>& lane);

  /// Starts the thread where it does not run yet: what is submitted afterwards is advanced whether or not anybody waits. Error where there is no
  /// thread to be had.
  void get_ready();
  using MakeTask = std::function<std::unique_ptr<Task>()>;
  /// When the thread sees to what is submitted: at once, or, as for `post`, when no caller has come for a while.
  enum class Thread { at_once, later };
  /// Calls `make` where no other thread advances the lane, and not where the lane is over. The caller has called get_ready.
  StatePtr submit(const std::shared_ptr<Lane>& lane, Lane::Kind kind, Pending pending, const MakeTask& make, Thread thread = Thread::at_once);
  /// Posts a receive. The thread is not woken for it at once: a caller that posts a window of receives waits for them soon. The caller has called
  /// get_ready.
  void post(Lane& lane, PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call);
  /// Has the thread advance what is pending although callers post and wait: somebody counts on it.
  void need_thread();
  /// Submits a collective for a caller that waits for it at once, so that no other thread is woken. `issued` is called when the operation has its
  /// place in the lane; `describe` makes its entry there. A caller whose operation may leave something to a device has called get_ready.
  ///
  /// An operation on the host's memory is tried for a moment first, where nothing else is pending. If that is all it takes it needs no place in the
  /// lane: the result is null then, and what the task threw is thrown as it is.
  ///
  /// So is one on a device's memory, where only the device has anything pending: it is watched then, as by `watch`.
  enum class Memory { host, device };
  using Describe = std::function<Pending()>;
  StatePtr carry_out(const std::shared_ptr<Lane>& lane, Memory memory, const Describe& describe, const MakeTask& make,
                     const std::function<void()>& issued);
  /// Watches an operation that its caller has carried out as far as the device, which has yet to reach `completion`. The caller has called get_ready.
  StatePtr watch(const std::shared_ptr<Lane>& lane, Pending pending, std::shared_ptr<DeviceEvent> completion);
  /// Calls `f` while no other thread advances a lane.
  template <class F>
  auto exclusively(F&& f);
  /// Goes once over what is pending in the lane.
  void advance(Lane& lane);
  void wait(detail::WorkState& state);
  /// Waits for a condition that what is pending brings about. Returns false when the deadline has passed first.
  bool wait_until(const std::function<bool()>& done, const base::Deadline& deadline);
  void wait_until(const std::function<bool()>& done);
  /// Waits until the lane is empty; false if that takes longer.
  bool drain(Lane& lane, const base::Deadline& deadline);
  /// Takes a receive back: see Lane::cancel.
  bool cancel(detail::WorkState& state);
  /// Calls the function for everything that is pending in the lane.
  void visit(Lane& lane, const std::function<void(const Ended&)>& look);
  /// Ends what is pending in the lane, each operation with its error.
  void end(Lane& lane, const ErrorOf& error_of);
  /// Ends the thread. What is pending stays as it is.
  void stop() { thread_.stop(); }

 private:
  friend class ProgressThread;
  class Locked;
  class Waiting;

  bool is_done_soon(const Lane& lane, Memory memory, Task& task) const;
  StatePtr put(const std::shared_ptr<Lane>& lane, Lane::Kind kind, Pending pending, const MakeTask& make, Thread thread);
  StatePtr watch_in(Locked& locked, const std::shared_ptr<Lane>& lane, Pending pending, std::shared_ptr<DeviceEvent> completion);
  StatePtr state_in(const std::shared_ptr<Lane>& lane);
  template <class Done>
  bool drive(Done&& done, const base::Deadline* deadline);
  bool poll(Locked& locked, Lane::Look look = Lane::Look::yes);
  void end_all(Locked& locked, const ErrorOf& error_of);
  void wake_thread();
  bool has_waiters() const { return waiters_.load() > 0; }
  bool needs_thread() const { return count_.load() > 0 && !has_waiters(); }
  /// The thread is to take charge at once.
  bool needs_thread_at_once() const {
    return urgent_.load(std::memory_order_relaxed) > 0 || needed_at_.load(std::memory_order_relaxed) == activity_.load(std::memory_order_relaxed);
  }
  /// A caller has posted something, or waits. Inexact: two threads may count as one.
  void note_activity() { activity_.store(activity_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  std::chrono::nanoseconds longest_sleep() const;

  std::mutex mutex_;  // of the lanes and their tasks
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::atomic<int> count_{0};  // of what is pending in all lanes
  std::atomic<int> waiters_{0};
  std::atomic<int> urgent_{0};                               // of them
  std::atomic<std::uint64_t> activity_{0};                   // of callers
  std::atomic<std::uint64_t> needed_at_{~std::uint64_t{0}};  // the activity after which somebody counts on the thread
  std::atomic<int> contenders_{0};                           // threads that wait for the lock
  std::atomic<bool> all_wake_{true};                         // the notifier is notified of all that was pending at the last poll
  base::Notifier* notifier_ = nullptr;
  bool crowded_ = true;
  base::Neighbours* neighbours_ = nullptr;
  ProgressThread thread_;
};

/// Holds the lock. When it is released, waiters are notified of what is done, and the remains are let go of.
class Progress::Locked {
 public:
  explicit Locked(Progress& progress) : progress_(progress), lock_(progress.mutex_, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    progress.contenders_.fetch_add(1);
    lock_.lock();
    progress.contenders_.fetch_sub(1);
  }
  Locked(Progress& progress, std::try_to_lock_t) : progress_(progress), lock_(progress.mutex_, std::try_to_lock) {}
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  bool owns() const { return lock_.owns_lock(); }
  std::unique_lock<std::mutex>& lock() { return lock_; }
  /// Changes a lane, and the number of what is pending with it.
  template <class F>
  void change(Lane& lane, F&& f) {
    struct Counting {
      std::atomic<int>&total, &urgent;  // which change under the lock only
      const Lane& lane;
      int before = lane.count(), urgent_before = lane.urgent_count();
      static void add(std::atomic<int>& to, int change) {
        if (change != 0) to.store(to.load(std::memory_order_relaxed) + change, std::memory_order_release);
      }
      ~Counting() {
        add(total, lane.count() - before);
        add(urgent, lane.urgent_count() - urgent_before);
      }
    } const counting{progress_.count_, progress_.urgent_, lane};
    f(lane, remains_);
  }

 private:
  Progress& progress_;
  std::unique_lock<std::mutex> lock_;
  Remains remains_;
};

template <class F>
auto Progress::exclusively(F&& f) {
  const Locked locked(*this);
  return f();
}

}  // namespace unisono::group

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/notifier.h"
#include "group/progress/backoff.h"
#include "group/progress/lane.h"

namespace unisono::group {

/// The lanes of all groups of a rank under one lock, and what is known without it of the operations in them and of the callers that wait.
class Lanes {
 public:
  class Locked;

  Lanes() = default;
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// `notifier`: of this rank. `crowded`: ranks outnumber processors. `neighbours`: see Backoff.
  void configure(base::Notifier* notifier, bool crowded, base::Neighbours* neighbours);
  base::Notifier* notifier() const { return notifier_; }
  /// Returns how a caller of this rank waits.
  Backoff backoff() const { return {notifier_, crowded_, false, neighbours_}; }
  void add(const std::shared_ptr<Lane>& lane);
  void remove(const std::shared_ptr<Lane>& lane);
  /// Goes once over everything that is pending; true if anything is done.
  bool poll(Locked& locked, Lane::Look look = Lane::Look::yes);
  /// Ends everything that is pending, each operation with its error.
  void end(Locked& locked, const ErrorOf& error_of);
  /// The lock alone, for what the lanes have no part in.
  std::mutex& mutex() { return mutex_; }

  // From any thread.

  /// How much is pending.
  int count() const { return count_.load(); }
  bool is_wanted() const { return contenders_.load(std::memory_order_relaxed) > 0; }
  std::chrono::nanoseconds longest_sleep() const;

  /// A caller begins to wait, and advances what is pending; or it stops. Returns true where it was the last one and something is left.
  void begin_waiting() {
    waiters_.fetch_add(1);
    note_activity();
  }
  bool end_waiting() { return waiters_.fetch_sub(1) == 1 && count() > 0; }
  bool has_waiters() const { return waiters_.load() > 0; }
  /// A caller has posted something, or waits. Inexact: two threads may count as one.
  void note_activity() { activity_.store(activity() + 1, std::memory_order_relaxed); }
  std::uint64_t activity() const { return activity_.load(std::memory_order_relaxed); }
  /// Somebody counts on the thread (ProgressThread) from now on, until there is activity.
  void need_thread();
  bool needs_thread() const { return count() > 0 && !has_waiters(); }
  /// The thread is to take charge at once.
  bool needs_thread_at_once() const {
    return urgent_.load(std::memory_order_relaxed) > 0 || needed_at_.load(std::memory_order_relaxed) == activity();
  }

 private:
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
};

/// Holds the lock. When it is released, waiters are notified of what is done, and the remains are let go of.
class Lanes::Locked {
 public:
  explicit Locked(Lanes& lanes) : lanes_(lanes), lock_(lanes.mutex_, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    lanes.contenders_.fetch_add(1);
    lock_.lock();
    lanes.contenders_.fetch_sub(1);
  }
  Locked(Lanes& lanes, std::try_to_lock_t) : lanes_(lanes), lock_(lanes.mutex_, std::try_to_lock) {}
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
    } const counting{lanes_.count_, lanes_.urgent_, lane};
    f(lane, remains_);
  }

 private:
  Lanes& lanes_;
  std::unique_lock<std::mutex> lock_;
  Remains remains_;
};

}  // namespace unisono::group

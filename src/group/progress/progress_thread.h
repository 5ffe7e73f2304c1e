#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include "base/thread.h"
#include "group/progress/lanes.h"

namespace unisono::group {

/// The one thread that advances what is pending while nobody waits for any of it.
///
/// A window of small receives is over sooner than a thread wakes up, and a thread that works beside it only takes the lock and the processor. So the
/// thread is not woken for them while callers come and go: it dozes, looks now and then whether they do, and takes charge once none has come for a
/// while. It takes charge at once of everything else, and where somebody counts on it.
class ProgressThread {
 public:
  ProgressThread(Lanes& lanes, std::string rank_text) : lanes_(lanes), rank_text_(std::move(rank_text)) {}

  /// Starts the thread where it does not run yet; Error where there is none to be had. The caller holds the lock.
  void start();
  /// It was started. From any thread.
  bool is_running() const { return is_running_.load(std::memory_order_acquire); }
  /// There is something to do.
  void wake() { work_.notify_one(); }
  /// It sleeps until it is woken.
  bool sleeps() const { return sleeps_.load(); }
  /// It advances what is pending now: a caller that waits had better do so instead.
  bool is_polling() const { return is_polling_.load(std::memory_order_relaxed); }
  void stop();

 private:
  static constexpr std::chrono::microseconds doze{200};

  void loop();
  /// Waits until what is pending needs the thread, or it is to stop.
  void await_turn(std::unique_lock<std::mutex>& lock);
  void let_callers_in() const;
  void turn(Backoff& backoff);
  class Polling;
  void give_up(const std::exception_ptr& error) noexcept;

  Lanes& lanes_;
  std::string rank_text_;
  std::condition_variable work_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> is_running_{false};
  std::atomic<bool> is_polling_{false};
  std::atomic<bool> sleeps_{false};  // changes under the lock
  std::uint64_t seen_activity_ = 0;  // when it took charge
  bool is_in_charge_ = false;
  base::Thread thread_;
};

}  // namespace unisono::group

#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/thread.h"
#include "unisono/call.h"
#include "unisono/failure.h"

namespace unisono::coordination {

/// Watches this rank's blocking calls of an engine. A thread looks periodically whether a peer is gone, the group is over, or the call has taken too
/// long, and then ends the group, which ends the call.
class Watchdog {
 public:
  /// `look` returns the failure, if there is one; `patience`: with a rank that is silent. `end` ends the group, and with it every current call. Both
  /// are called in the watchdog's thread.
  using Look = std::function<std::optional<Failure>(std::chrono::milliseconds patience)>;
  Watchdog(Look look, std::function<void(const Failure&)> end);
  ~Watchdog();

  /// Marks a call as current for its lifetime.
  class Guard {
   public:
    Guard(Watchdog& watchdog, const CollectiveCall& call, std::chrono::milliseconds timeout);
    ~Guard() { watchdog_.inside_.store(0, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  void loop();
  void check();
  void give_up(const std::string& why) noexcept;

  Look look_;
  std::function<void(const Failure&)> end_;
  std::atomic<std::uint64_t> inside_{0};    // the number of the current call; 0: there is none
  std::atomic<std::int64_t> timeout_{0};    // of the current call, in ms
  std::atomic<const char*> operation_{""};  // a string literal
  std::atomic<std::uint64_t> sequence_{0};
  std::uint64_t calls_ = 0;
  // The call that the watchdog's thread saw last time, and since when.
  std::uint64_t seen_ = 0;
  base::Clock::time_point since_{};
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  pid_t process_;
  base::Thread thread_;
};

}  // namespace unisono::coordination

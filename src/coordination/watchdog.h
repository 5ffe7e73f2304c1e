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

/// Watches from outside while this rank is inside a call of an engine from which it cannot look up: one thread that looks, now and then, whether a
/// peer is gone, the group is over, or the call has taken too long, and then ends the group, which ends the call.
class Watchdog {
 public:
  /// `look`: what has gone wrong, if anything. `end`: ends the group, and with it whatever is under way; both from the watchdog's thread.
  Watchdog(std::function<std::optional<Failure>()> look, std::function<void(const Failure&)> end);
  ~Watchdog();

  /// For as long as this lives, a call is under way.
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

  std::function<std::optional<Failure>()> look_;
  std::function<void(const Failure&)> end_;
  std::atomic<std::uint64_t> inside_{0};    // the number of the call that is under way; 0: none is
  std::atomic<std::int64_t> timeout_{0};    // of it, in ms
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

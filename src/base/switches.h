#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/deadline.h"
#include "unisono/detail/switches.h"

namespace unisono::base {

/// Set by `detail::set_call_comparison` and read by every collective in shared memory.
extern std::atomic<bool> compares_calls;
/// Set by `detail::set_call_recording`.
extern std::atomic<bool> records_calls;

/// Sets the limit of silence unless the program has set one.
void suggest_silence_limit(std::chrono::milliseconds limit) noexcept;

// The waits of the library ask, before each sleep, whether a signal of the program is to end them (unisono/interruption.h).

bool has_interruption_check() noexcept;
/// Calls the check, where there is one. No lock may be held.
void check_interruption();
/// Does the same with the lock released meanwhile. Returns whether it was.
template <class Lock>
bool check_interruption(Lock& lock) {
  if (!has_interruption_check()) return false;
  lock.unlock();
  check_interruption();
  lock.lock();
  return true;
}

/// The longest sleep between two checks.
inline constexpr std::chrono::milliseconds interruption_period{100};
inline std::chrono::milliseconds interruptible(std::chrono::milliseconds longest) {
  return has_interruption_check() ? std::min(longest, interruption_period) : longest;
}

/// The same for a loop that comes by more often: it asks once in a period.
class InterruptionLook {
 public:
  void operator()() {
    if (!has_interruption_check()) return;
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + interruption_period / 2;
    check_interruption();
  }

 private:
  Clock::time_point next_{};
};

}  // namespace unisono::base

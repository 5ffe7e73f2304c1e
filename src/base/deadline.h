#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace unisono::base {

using Clock = std::chrono::steady_clock;

/// Longer than anybody waits, and short enough for what is reckoned with it: a program that never wants to give up says milliseconds::max().
inline constexpr std::chrono::milliseconds longest_timeout = std::chrono::hours(24) * 365 * 100;

constexpr std::chrono::milliseconds clamped(std::chrono::milliseconds timeout) {
  return std::clamp(timeout, std::chrono::milliseconds(0), longest_timeout);
}

/// A point in time after which waiting is over. Copyable, cheap; one deadline is handed through a whole call, however many waits it has.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) : start_(Clock::now()), timeout_(clamped(timeout)) {}
  bool passed() const { return Clock::now() - start_ >= timeout_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  std::chrono::nanoseconds elapsed() const { return Clock::now() - start_; }
  /// Never negative.
  std::chrono::milliseconds left() const {
    auto rest = std::chrono::ceil<std::chrono::milliseconds>(start_ + timeout_ - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  }
  /// For poll(2): milliseconds left, at most `limit`.
  int poll_timeout(int limit = 1 << 30) const { return static_cast<int>(std::min<std::int64_t>(left().count(), limit)); }

 private:
  Clock::time_point start_;
  std::chrono::milliseconds timeout_;
};

}  // namespace unisono::base

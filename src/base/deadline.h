#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace unisono::base {

using Clock = std::chrono::steady_clock;

/// The longest timeout that is kept as it is. A program that never gives up passes milliseconds::max(), which would overflow in sums with it.
inline constexpr std::chrono::milliseconds longest_timeout = std::chrono::hours(24) * 365 * 100;

constexpr std::chrono::milliseconds clamped(std::chrono::milliseconds timeout) {
  return std::clamp(timeout, std::chrono::milliseconds(0), longest_timeout);
}

/// The end of a wait. It is copyable and cheap; a whole call uses one deadline, however many waits it has.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) : start_(Clock::now()), timeout_(clamped(timeout)) {}
  bool passed() const { return Clock::now() - start_ >= timeout_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  std::chrono::nanoseconds elapsed() const { return Clock::now() - start_; }
  /// Returns the time left, never negative.
  std::chrono::milliseconds left() const {
    auto rest = std::chrono::ceil<std::chrono::milliseconds>(start_ + timeout_ - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  }
  /// Returns the milliseconds left, at most `limit`, as poll(2) takes them.
  /// The longest single poll: 12 days, well inside an int.
  static constexpr int longest_poll_ms = 1 << 30;
  int poll_timeout(int limit = longest_poll_ms) const { return static_cast<int>(std::min<std::int64_t>(left().count(), limit)); }

 private:
  Clock::time_point start_;
  std::chrono::milliseconds timeout_;
};

}  // namespace unisono::base

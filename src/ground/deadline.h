#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace unisono::ground {

using Clock = std::chrono::steady_clock;

/// A point in time after which waiting is over. Copyable, cheap; one deadline is handed through a whole call, however many waits it has.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) : start_(Clock::now()), timeout_(timeout) {}
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

}  // namespace unisono::ground

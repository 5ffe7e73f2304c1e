#include "group/progress/backoff.h"

#include <sched.h>

#include <ctime>

namespace unisono::group {

void Backoff::notice_futility() noexcept {
  if (count_ == spins_ + 1) first_yield_ = std::chrono::steady_clock::now();
  if (count_ != spins_ + trial) return;
  if (std::chrono::steady_clock::now() - first_yield_ < trial * shortest_way) count_ = spins_ + yields_;
}

void Backoff::give_way() noexcept { ::sched_yield(); }

void Backoff::rest(std::chrono::nanoseconds duration) noexcept {
  timespec time{};
  time.tv_nsec = static_cast<long>(duration.count());
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

}  // namespace unisono::group

#include "base/notifier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace unisono::base {

void Notifier::wait(std::uint32_t seen, std::chrono::nanoseconds at_most) noexcept {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(at_most.count() / std::nano::den);
  limit.tv_nsec = static_cast<long>(at_most.count() % std::nano::den);
  // The result does not matter: the caller checks its condition again in any case.
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void Notifier::wake() noexcept {
  word_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace unisono::base

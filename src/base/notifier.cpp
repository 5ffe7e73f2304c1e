#include "base/notifier.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace unisono::base {

std::atomic<bool> AsymmetricFence::registered{false};

void AsymmetricFence::register_process() noexcept {
  static const bool is_registered = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  registered.store(is_registered, std::memory_order_relaxed);
}

bool AsymmetricFence::heavy() noexcept { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

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

bool Neighbours::share_processor() noexcept {
  const int here = ::sched_getcpu();  // no system call: the kernel keeps the number in the thread's memory
  own_.set_processor(here);
  const bool share = std::ranges::any_of(others_, [&](const Notifier* other) { return other->processor() == here; });
  if (share != shared_processor()) shared_.store(share, std::memory_order_relaxed);
  return share;
}

}  // namespace unisono::base

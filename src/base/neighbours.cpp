#include "base/neighbours.h"

#include <sched.h>

#include <algorithm>

namespace unisono::base {

bool Neighbours::share_processor() noexcept {
  const int here = ::sched_getcpu();  // no system call: the kernel keeps the number in the thread's memory
  own_.set_processor(here);
  const bool share = std::ranges::any_of(others_, [&](const Notifier* other) { return other->processor() == here; });
  if (share != shared_processor()) shared_.store(share, std::memory_order_relaxed);
  return share;
}

}  // namespace unisono::base

#pragma once

#include <atomic>
#include <vector>

#include "base/notifier.h"

namespace unisono::base {

/// The ranks of a host that wait for each other. The system may put two of them on one processor although there are others, as it does where another
/// program keeps those busy. A rank that spins then keeps away the one it waits for, until its time slice ends.
class Neighbours {
 public:
  /// `own` and `others` must outlive this.
  Neighbours(Notifier& own, std::vector<const Notifier*> others) : own_(own), others_(std::move(others)) {}

  /// Says where this rank is now. Returns true where another rank was on the same processor when it last waited.
  bool share_processor() noexcept;
  /// Returns what `share_processor` has returned last.
  bool shared_processor() const noexcept { return shared_.load(std::memory_order_relaxed); }

 private:
  Notifier& own_;
  std::vector<const Notifier*> others_;
  std::atomic<bool> shared_{false};
};

}  // namespace unisono::base

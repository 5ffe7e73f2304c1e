#include "base/interruption.h"

#include <atomic>

#include "unisono/interruption.h"

namespace unisono {
namespace {
std::atomic<InterruptionCheck> current{nullptr};
}  // namespace

InterruptionCheck set_interruption_check(InterruptionCheck check) noexcept { return current.exchange(check); }

bool base::has_interruption_check() noexcept { return current.load(std::memory_order_relaxed) != nullptr; }

void base::check_interruption() {
  if (const InterruptionCheck check = current.load(std::memory_order_acquire)) check();
}

}  // namespace unisono

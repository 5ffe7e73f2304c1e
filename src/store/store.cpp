#include "unisono/store.h"

#include <atomic>

#include "base/deadline.h"

namespace unisono {

Store::~Store() = default;

Store::Milliseconds Store::timeout() const noexcept { return Milliseconds(std::atomic_ref(timeout_ms_).load(std::memory_order_relaxed)); }
void Store::set_timeout(Milliseconds timeout) noexcept {
  std::atomic_ref(timeout_ms_).store(base::clamped(timeout).count(), std::memory_order_relaxed);
}

}  // namespace unisono

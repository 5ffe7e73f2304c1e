#include "unisono/store.h"

namespace unisono {

Store::~Store() = default;

Store::Milliseconds Store::timeout() const noexcept { return Milliseconds(timeout_ms_.load(std::memory_order_relaxed)); }
void Store::set_timeout(Milliseconds timeout) noexcept { timeout_ms_.store(timeout.count(), std::memory_order_relaxed); }

}  // namespace unisono

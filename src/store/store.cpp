#include "unisono/store.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/deadline.h"
#include "store/request_limit.h"

namespace unisono {
namespace {

thread_local const base::Deadline* limit_of_thread = nullptr;

}  // namespace

store::RequestLimit::RequestLimit(std::chrono::milliseconds time)
    : deadline_(limit_of_thread == nullptr ? time : std::min(time, limit_of_thread->left())), outer_(std::exchange(limit_of_thread, &deadline_)) {}
store::RequestLimit::~RequestLimit() { limit_of_thread = outer_; }

Store::~Store() = default;

Store::Milliseconds Store::timeout() const noexcept {
  const auto own = Milliseconds(std::atomic_ref(timeout_ms_).load(std::memory_order_relaxed));
  return limit_of_thread == nullptr ? own : std::min<Milliseconds>(own, limit_of_thread->left());
}
void Store::set_timeout(Milliseconds timeout) noexcept {
  std::atomic_ref(timeout_ms_).store(base::clamped(timeout).count(), std::memory_order_relaxed);
}

}  // namespace unisono

#include "coordination/failure_state.h"

#include "coordination/failure_text.h"

namespace unisono::coordination {

void FailureState::record(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  if (!host_.engine) return;
  engines::shm::Segment& segment = host_.engine->segment();
  record_failure(segment.failure(), failure);
  for (int r = 0; r < segment.ranks(); ++r) segment.notifier(r).notify();
}

void FailureState::take_announced(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (announced_) return;
  announced_ = failure;
  announced_at_ = base::Clock::now();
  is_announced_.store(true, std::memory_order_release);
}

std::optional<Failure> FailureState::announced() const {
  if (!is_announced_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return announced_;
}

// Data that other ranks sent before one of them gave up still counts. It uses other connections than the notice of the failure, so an announced
// failure counts a little later.
std::optional<Failure> FailureState::read() const {
  constexpr auto time_to_arrive = std::chrono::milliseconds(20);
  if (host_.engine) {
    if (auto recorded = recorded_failure(host_.engine->segment().failure())) return recorded;
  }
  const std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  return announced_ && base::Clock::now() - announced_at_ >= time_to_arrive ? announced_ : std::nullopt;
}

}  // namespace unisono::coordination

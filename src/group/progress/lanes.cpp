#include "group/progress/lanes.h"

#include "group/progress/wait_check.h"

namespace unisono::group {

Lanes::Locked::~Locked() {
  if (!lock_.owns_lock()) return;
  if (remains_.any_done && lanes_.notifier_ != nullptr) lanes_.notifier_->notify();
  lock_.unlock();
  for (const auto& callback : remains_.callbacks) call_back(callback);
}

void Lanes::configure(base::Notifier* notifier, bool crowded, base::Neighbours* neighbours) {
  const std::lock_guard lock(mutex_);
  notifier_ = notifier;
  crowded_ = crowded;
  neighbours_ = neighbours;
}

void Lanes::add(const std::shared_ptr<Lane>& lane) {
  const std::lock_guard lock(mutex_);
  lane->serve(contenders_);
  lanes_.push_back(lane);
}

void Lanes::remove(const std::shared_ptr<Lane>& lane) {
  Locked locked(*this);
  std::erase(lanes_, lane);
  locked.change(*lane, [](Lane& removed, Remains&) { removed.clear(); });
}

void Lanes::need_thread() {
  const std::lock_guard lock(mutex_);
  needed_at_.store(activity(), std::memory_order_relaxed);
}

std::chrono::nanoseconds Lanes::longest_sleep() const {
  return all_wake_.load(std::memory_order_relaxed) ? std::chrono::nanoseconds(look_period) : std::chrono::nanoseconds(unnotified_period);
}

bool Lanes::poll(Locked& locked, Lane::Look look) {
  bool any_done = false;
  bool all_wake = true;
  for (const auto& lane : lanes_) {
    locked.change(*lane, [&](Lane& to, Remains& remains) { any_done = to.poll(remains, look) || any_done; });
    all_wake = all_wake && lane->wakes_waiter();
  }
  all_wake_.store(all_wake, std::memory_order_relaxed);
  return any_done;
}

void Lanes::end(Locked& locked, const ErrorOf& error_of) {
  for (const auto& lane : lanes_) locked.change(*lane, [&](Lane& ended, Remains& remains) { ended.end(error_of, remains); });
}

}  // namespace unisono::group

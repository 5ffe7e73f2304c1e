#include "group/progress_thread.h"

#include "base/log.h"
#include "group/backoff.h"
#include "group/group.h"
#include "group/progress.h"

namespace unisono::group {

void ProgressThread::start() {
  if (!thread_.joinable() && !stop_) thread_ = base::Thread("the asynchronous operations", [this] { loop(); });
  is_running_.store(true, std::memory_order_release);
}

void ProgressThread::loop() {
  base::set_log_rank(rank_text_);
  Backoff backoff = Backoff::modest(progress_.notifier_);
  while (!stop_.load()) {
    try {
      turn(backoff);
    } catch (...) {
      give_up(std::current_exception());
    }
  }
}

void ProgressThread::await_turn(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (stop_.load()) return;
    const std::uint64_t activity = progress_.activity_.load(std::memory_order_relaxed);
    is_in_charge_ = is_in_charge_ && activity == seen_activity_;
    if (progress_.needs_thread() && (is_in_charge_ || progress_.needs_thread_at_once())) return;
    work_.wait_for(lock, doze, [&] { return stop_.load() || (progress_.needs_thread_at_once() && progress_.needs_thread()); });
    if (progress_.activity_.load(std::memory_order_relaxed) != activity) continue;
    if (progress_.needs_thread()) {  // and nobody has come for a while
      is_in_charge_ = true;
      seen_activity_ = activity;
      return;
    }
    sleeps_.store(true);  // before it looks once more: a caller that stops waiting looks at this after that
    work_.wait(lock, [&] { return stop_.load() || progress_.needs_thread(); });
    sleeps_.store(false);
  }
}

void ProgressThread::turn(Backoff& backoff) {
  {
    Progress::Locked locked(progress_);
    await_turn(locked.lock());
    if (stop_.load()) return;
    if (progress_.poll(locked)) backoff.reset();
    if (progress_.count_.load() == 0) return;
  }
  backoff.pause(
      [&] {
        Progress::Locked locked(progress_, std::try_to_lock);
        return stop_.load() || progress_.has_waiters() || (locked.owns() && progress_.poll(locked));
      },
      progress_.longest_sleep());
}

// An error that must not happen in the thread (no memory) ends what is pending, on all ranks.
void ProgressThread::give_up(const std::exception_ptr& error) noexcept {
  try {
    Progress::Locked locked(progress_);
    progress_.end_all(locked, [&](const Ended& ended) {
      ended.group.abort_after(error);
      return error;
    });
  } catch (const std::exception& again) {
    base::log(base::LogLevel::error, again.what());
  }
}

void ProgressThread::stop() {
  {
    const std::lock_guard lock(progress_.mutex_);
    stop_.store(true);
  }
  work_.notify_all();
  if (!thread_.joinable()) return;  // nobody to wake; a second stop may come when the notifier's memory is gone
  if (progress_.notifier_ != nullptr) progress_.notifier_->notify();
  thread_.join();
}

}  // namespace unisono::group

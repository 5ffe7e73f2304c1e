#include "group/progress/progress_thread.h"

#include <sched.h>

#include "base/log.h"
#include "group/group_facts.h"

namespace unisono::group {

/// Says that the thread advances what is pending.
class ProgressThread::Polling {
 public:
  explicit Polling(ProgressThread& thread) : thread_(thread) { thread_.is_polling_.store(true, std::memory_order_relaxed); }
  ~Polling() { thread_.is_polling_.store(false, std::memory_order_relaxed); }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;
  bool poll(Lanes::Locked& locked) { return thread_.lanes_.poll(locked); }

 private:
  ProgressThread& thread_;
};

void ProgressThread::start() {
  if (!thread_.joinable() && !stop_) thread_ = base::Thread("the asynchronous operations", [this] { loop(); });
  is_running_.store(true, std::memory_order_release);
}

void ProgressThread::loop() {
  base::set_log_rank(rank_text_);
  Backoff backoff = Backoff::modest(lanes_.notifier());
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
    const std::uint64_t activity = lanes_.activity();
    is_in_charge_ = is_in_charge_ && activity == seen_activity_;
    if (lanes_.needs_thread() && (is_in_charge_ || lanes_.needs_thread_at_once())) return;
    work_.wait_for(lock, doze, [&] { return stop_.load() || (lanes_.needs_thread_at_once() && lanes_.needs_thread()); });
    if (lanes_.activity() != activity) continue;
    if (lanes_.needs_thread()) {  // and nobody has come for a while
      is_in_charge_ = true;
      seen_activity_ = activity;
      return;
    }
    sleeps_.store(true);  // before it looks once more: a caller that stops waiting looks at this after that
    work_.wait(lock, [&] { return stop_.load() || lanes_.needs_thread(); });
    sleeps_.store(false);
  }
}

// A mutex goes to the thread that runs, which is this one, before the one that it wakes: a caller that posts a window of messages would stand behind
// all that this thread finds to copy.
void ProgressThread::let_callers_in() const {
  constexpr int most = 100;  // they may wait for another caller
  for (int i = 0; i < most && lanes_.is_wanted(); ++i) ::sched_yield();
}

void ProgressThread::turn(Backoff& backoff) {
  let_callers_in();
  {
    Lanes::Locked locked(lanes_);
    await_turn(locked.lock());
    if (stop_.load()) return;
    if (Polling(*this).poll(locked)) backoff.reset();
    if (lanes_.count() == 0) return;
  }
  backoff.pause(
      [&] {
        let_callers_in();
        Lanes::Locked locked(lanes_, std::try_to_lock);
        return stop_.load() || lanes_.has_waiters() || (locked.owns() && Polling(*this).poll(locked));
      },
      lanes_.longest_sleep());
}

// An error that must not happen in the thread (no memory) ends what is pending, on all ranks.
void ProgressThread::give_up(const std::exception_ptr& error) noexcept {
  try {
    Lanes::Locked locked(lanes_);
    lanes_.end(locked, [&](const Ended& ended) {
      ended.group.abort_after(error);
      return error;
    });
  } catch (const std::exception& again) {
    base::log(base::LogLevel::error, again.what());
  }
}

void ProgressThread::stop() {
  {
    const std::lock_guard lock(lanes_.mutex());
    stop_.store(true);
  }
  work_.notify_all();
  if (!thread_.joinable()) return;  // nobody to wake; a second stop may come when the notifier's memory is gone
  if (lanes_.notifier() != nullptr) lanes_.notifier()->notify();
  thread_.join();
}

}  // namespace unisono::group

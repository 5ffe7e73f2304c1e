#include "group/progress/waiter.h"

#include <algorithm>
#include <optional>

#include "base/deadline.h"
#include "base/switches.h"
#include "group/group_errors.h"
#include "group/progress/backoff.h"
#include "group/progress/wait_check.h"

namespace unisono::group {
void BlockingWaiter::wait(Task& task) {
  coordination::Coordination& coordination = group_.coordination();
  Backoff backoff(coordination.notifier(), coordination.is_crowded(), coordination.link() != nullptr, coordination.neighbours());
  // Spinning takes far less than a millisecond: there is nothing to look at meanwhile.
  const auto again = [&] { return task.advance(); };
  do {
    backoff.pause(again, std::chrono::nanoseconds(0));
    if (task.advance()) return;
  } while (backoff.is_spinning());

  // A call that waits for several tasks has one clock for all of them.
  if (!deadline_) deadline_.emplace(timeout_);
  const base::Deadline& deadline = *deadline_;
  auto next_look = base::Clock::now() + look_period;
  bool warned = false;
  base::InterruptionLook look_for_interruption;
  const WaitCheck check{operation_, sequence_, deadline, record_, warned};
  group_.record_wait(record_, task.waiting_for());
  for (;;) {
    try {
      look_for_interruption();
    } catch (...) {  // the task ends half done, with its caller's memory
      group_.abort_after(std::current_exception());
      throw;
    }
    // Ranks that are known to differ have their decision soon, also behind the deadline.
    const std::chrono::nanoseconds left = coordination.is_disputed() ? look_period : std::chrono::nanoseconds(deadline.left());
    backoff.pause(again, std::min<std::chrono::nanoseconds>(task.wakes_waiter() ? look_period : unnotified_period, left),
                  [&](std::chrono::nanoseconds at_most) { return task.sleep(at_most); });
    if (task.advance()) return;
    std::optional<Failure> failure = coordination.failure();
    const bool late = deadline.passed();
    const auto now = base::Clock::now();
    if (!failure && (late || now >= next_look)) {
      next_look = now + look_period;
      failure = check.look(group_, task);
    }
    if (!failure) continue;
    if (task.advance()) return;  // the part of a peer that did it before it went still counts
    std::rethrow_exception(group_.fail(*failure, operation_, sequence_));
  }
}

}  // namespace unisono::group

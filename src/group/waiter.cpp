#include "group/waiter.h"

#include <algorithm>
#include <optional>

#include "ground/deadline.h"
#include "group/backoff.h"
#include "group/group.h"
#include "group/vigil.h"

namespace unisono::group {
void BlockingWaiter::wait(Task& task) {
  Backend& backend = group_.backend();
  Backoff backoff(backend.bell(), backend.crowded());
  // As long as it only spins, the time that passes is far below a millisecond: nothing to look at.
  const auto again = [&] { return task.advance(); };
  do {
    backoff.pause(again, std::chrono::nanoseconds(0));
    if (task.advance()) return;
  } while (backoff.is_spinning());

  // One clock for all that one call waits for.
  if (!deadline_) deadline_.emplace(timeout_);
  const ground::Deadline& deadline = *deadline_;
  auto next_look = ground::Clock::now() + look_period;
  bool warned = false;
  const Vigil vigil{operation_, sequence_, deadline, warned};
  for (;;) {
    const std::chrono::nanoseconds left = deadline.left();
    backoff.pause(again, std::min<std::chrono::nanoseconds>(task.is_rung_for() ? look_period : unrung_period, left));
    if (task.advance()) return;
    std::optional<Failure> failure = backend.failure();
    const bool late = deadline.passed();
    const auto now = ground::Clock::now();
    if (!failure && (late || now >= next_look)) {
      next_look = now + look_period;
      failure = vigil.look(group_, task);
    }
    if (!failure) continue;
    if (task.advance()) return;  // what a peer did before it went still counts
    std::rethrow_exception(group_.fail(*failure, operation_, sequence_));
  }
}

}  // namespace unisono::group

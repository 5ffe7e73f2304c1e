#include "group/waiter.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ground/deadline.h"
#include "ground/log.h"
#include "group/backoff.h"
#include "group/group.h"

namespace unisono::group {
namespace {

using namespace std::chrono_literals;
constexpr auto look_period = 20ms;
constexpr auto warn_after = 30s;

std::string names(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return text;
}

}  // namespace

void BlockingWaiter::wait(Task& task) {
  Backend& backend = group_.backend();
  Backoff backoff(backend.bell(), backend.crowded());
  // As long as it only spins, the time that passes is far below a millisecond: nothing to look at.
  const auto again = [&] { return task.advance(); };
  do {
    backoff.pause(again, 0ns);
    if (task.advance()) return;
  } while (backoff.is_spinning());

  const ground::Deadline deadline(timeout_);
  auto next_look = ground::Clock::now() + look_period;
  bool warned = false;
  for (;;) {
    const std::chrono::nanoseconds left = deadline.left();
    backoff.pause(again, std::min<std::chrono::nanoseconds>(look_period, left));
    if (task.advance()) return;
    std::optional<Failure> failure = backend.failure();
    const bool late = deadline.passed();
    const auto now = ground::Clock::now();
    if (!failure && (late || now >= next_look)) {
      next_look = now + look_period;
      const auto waiting = task.waiting_for();
      failure = backend.look_for_failures(waiting, task.any_will_do());
      if (!failure && late) {
        failure = Failure{.kind = Failure::Kind::timeout,
                          .cause = {},
                          .culprit = waiting.empty() || task.any_will_do() ? -1 : waiting.front(),
                          .missing = waiting,
                          .message = std::string(operation_) + " #" + std::to_string(sequence_) + " was not done within " +
                                     std::to_string(timeout_.count()) + " ms; waiting for rank " + names(waiting)};
      }
      if (!failure && !warned && deadline.elapsed() > warn_after) {
        warned = true;
        ground::warn(std::string(operation_) + " #" + std::to_string(sequence_) + " on group " + group_.name() + " has been waiting for rank " +
                     names(waiting) + " for 30 s");
      }
    }
    if (!failure) continue;
    if (task.advance()) return;  // what a peer did before it went still counts
    std::rethrow_exception(group_.fail(*failure, operation_, sequence_));
  }
}

}  // namespace unisono::group

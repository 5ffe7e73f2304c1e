#include "launch/job/leftover_steps.h"

#include <algorithm>
#include <csignal>
#include <string>

namespace unisono::launcher {

using std::chrono::milliseconds;

namespace {

/// The time that processes left by a rank get in each step: to end by themselves, after SIGTERM, and after SIGKILL.
constexpr milliseconds leftover_time{500};

}  // namespace

void LeftoverSteps::enter(Step step, milliseconds time) {
  step_ = step;
  deadline_.emplace(time);
}

void LeftoverSteps::wait_for(PollSet& set) {
  for (Leftover& leftover : leftovers_) {
    if (leftover.pidfd) set.add(leftover.pidfd.get(), POLLIN, [&leftover](short) { leftover.pidfd.reset(); });
  }
  if (deadline_) set.wake_at(*deadline_);
}

bool LeftoverSteps::advance(const Haste& haste) {
  if (step_ == Step::none) {
    leftovers_ = find_leftovers(parts_.job_id, processes_.groups());
    if (leftovers_.empty()) return true;
    enter(Step::found, haste.is_told ? milliseconds(0) : leftover_time);
  }
  std::erase_if(leftovers_, [](const Leftover& leftover) { return !leftover.pidfd; });
  const bool time_is_up = deadline_->passed() || haste.is_again;
  if (!leftovers_.empty() && !time_is_up) return false;
  leftovers_ = find_leftovers(parts_.job_id, processes_.groups());  // processes found before may have started others
  if (leftovers_.empty()) return true;
  if (!time_is_up) return false;
  if (step_ == Step::found && !haste.is_again) {
    for (const Leftover& leftover : leftovers_) {
      leftover.send(SIGTERM);
      leftover.send(SIGCONT);
    }
    enter(Step::asked, std::max(leftover_time, haste.grace.value_or(leftover_time)));
  } else if (step_ != Step::killed) {
    for (const Leftover& leftover : leftovers_) leftover.send(SIGKILL);
    enter(Step::killed, 2 * leftover_time);
  } else if (deadline_->passed()) {
    for (const Leftover& leftover : leftovers_)
      parts_.console.say("a process that a rank has left does not end: pid " + std::to_string(leftover.pid));
    return true;
  }
  return false;
}

}  // namespace unisono::launcher

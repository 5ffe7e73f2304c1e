#include "launch/job/ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace unisono::launcher {

using std::chrono::milliseconds;

namespace {

/// The time that processes left by a rank get in each step: to end by themselves, after SIGTERM, and after SIGKILL.
constexpr milliseconds leftover_time{500};

/// The time of ranks that no group tells of another rank's failure.
constexpr milliseconds outsiders_time{2000};
/// The time after SIGKILL is the grace within these limits; a killed process may take a while to release its memory.
constexpr milliseconds shortest_kill_time{1000}, longest_kill_time{5000};

/// Returns text such as "15 s" or "0.2 s".
std::string seconds(milliseconds time) { return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000); }

}  // namespace

Ending::Ending(const JobParts& parts, RankProcesses& processes, RankEnds& ends) : parts_(parts), processes_(processes), ends_(ends) {}

void Ending::wait_for(PollSet& set) {
  for (Leftover& leftover : leftovers_) {
    if (leftover.pidfd) set.add(leftover.pidfd.get(), POLLIN, [&leftover](short) { leftover.pidfd.reset(); });
  }
  if (deadline_) set.wake_at(*deadline_);
  if (outsiders_deadline_) set.wake_at(*outsiders_deadline_);
}

void Ending::enter(Phase phase, std::optional<milliseconds> time) {
  phase_ = phase;
  deadline_.reset();
  outsiders_deadline_.reset();
  if (time) deadline_.emplace(*time);
}

std::vector<std::size_t> Ending::living_outsiders() const {
  std::vector<std::size_t> all = processes_.living();
  std::erase_if(all, [this](std::size_t i) { return !ends_.is_outsider(i); });
  return all;
}

void Ending::go_on() const { parts_.console.say(ends_.failure().text() + "; the controller goes on without it", Topic::failing); }

void Ending::leave_alone(bool may_go_on) {
  const milliseconds grace = parts_.options.grace;
  enter(Phase::left_alone, grace);
  may_go_on_ = may_go_on;
  const std::size_t alive = processes_.living().size(), outsiders = living_outsiders().size();
  const milliseconds shorter = std::min(grace, outsiders_time);
  if (shorter < grace) outsiders_deadline_.emplace(shorter);
  const milliseconds time = outsiders == alive ? shorter : grace;
  std::string text = ends_.failure().text() + (alive == 1 ? "; the other has " : "; the others have ") + seconds(time) + " to end";
  if (outsiders > 0 && outsiders < alive && shorter < grace) text += ", those in no group with it " + seconds(shorter);
  if (parts_.signals != nullptr) text += " (Ctrl-C: now)";
  parts_.console.say(text, Topic::failing);
}

void Ending::ask_outsiders_to_end() {
  if (!outsiders_deadline_ || phase_ != Phase::left_alone || !outsiders_deadline_->passed()) return;
  outsiders_deadline_.reset();
  ends_.observe();  // a rank that is dead by now was not ended by us
  const std::vector<std::size_t> outsiders = living_outsiders();
  if (outsiders.size() == processes_.living().size()) return ask_to_end(SIGTERM);
  for (const std::size_t i : outsiders) {
    ends_.note_told(i);
    processes_.ask_to_end(i, SIGTERM);
  }
}

void Ending::ask_to_end(int signal) {
  ends_.observe();  // a rank that is dead by now was not ended by us
  ends_.note_all_told();
  is_told_ = true;
  asked_with_ = signal;
  grace_.emplace(parts_.options.grace);
  for (const std::size_t i : processes_.living()) processes_.ask_to_end(i, signal);
  enter(Phase::asked, parts_.options.grace);
}

void Ending::pass_on(int signal) {
  const bool was_asked = phase_ == Phase::asked;
  const auto deadline = deadline_;
  ask_to_end(signal);
  if (was_asked) deadline_ = deadline;
}

void Ending::kill_all() {
  ends_.observe();
  ends_.note_all_told();
  ends_.note_killed();
  is_told_ = true;
  processes_.signal_groups(SIGKILL);
  enter(Phase::killed, std::clamp(parts_.options.grace, shortest_kill_time, longest_kill_time));
}

bool Ending::hurry() {
  hurry_ = true;
  return phase_ < Phase::killed;
}

void Ending::advance() {
  ask_outsiders_to_end();
  if (!deadline_ || !deadline_->passed()) return;
  if (phase_ == Phase::left_alone) {
    ends_.failure().take();
    if (may_go_on_ && ends_.survivors_have_shrunk()) {
      enter(Phase::running, std::nullopt);
    } else {
      ask_to_end(SIGTERM);
    }
  } else if (phase_ == Phase::asked) {
    kill_all();
  } else if (phase_ == Phase::killed) {
    for (const std::size_t i : processes_.living()) {
      parts_.console.say(fmt::format("rank {} does not end, not even killed: pid {}", ends_[i].rank, processes_.pid(i)));
    }
    processes_.abandon_living();
    enter(Phase::over, std::nullopt);
  }
}

/// Returns how long what is left has after SIGTERM. A process that the signal has ended at once was a wrapper (a shell, conda run), as far as one can
/// tell: what it has left is the program, which has the rest of the grace.
milliseconds Ending::time_of_leftovers() const {
  const bool was_wrapper = asked_with_ && std::ranges::any_of(ends_.all(), [&](const RankEnd& end) {
                             return end.ended_by_launcher && end.how == RankEnd::How::signaled && end.code == *asked_with_;
                           });
  return was_wrapper ? std::max(leftover_time, grace_->left()) : leftover_time;
}

void Ending::advance_leftovers() {
  const auto find = [this] { leftovers_ = find_leftovers(parts_.job_id, processes_.groups()); };
  if (phase_ < Phase::leftovers_found) {
    find();
    enter(leftovers_.empty() ? Phase::over : Phase::leftovers_found, is_told_ ? milliseconds(0) : leftover_time);
    if (is_over()) return;
  }
  std::erase_if(leftovers_, [](const Leftover& leftover) { return !leftover.pidfd; });
  const bool time_is_up = deadline_->passed() || hurry_;
  if (!leftovers_.empty() && !time_is_up) return;
  find();  // processes found before may have started others
  if (leftovers_.empty()) return enter(Phase::over, std::nullopt);
  if (!time_is_up) return;
  if (phase_ == Phase::leftovers_found && !hurry_) {
    for (const Leftover& leftover : leftovers_) {
      leftover.send(SIGTERM);
      leftover.send(SIGCONT);
    }
    enter(Phase::leftovers_asked, time_of_leftovers());
  } else if (phase_ != Phase::leftovers_killed) {
    for (const Leftover& leftover : leftovers_) leftover.send(SIGKILL);
    enter(Phase::leftovers_killed, 2 * leftover_time);
  } else if (deadline_->passed()) {
    for (const Leftover& leftover : leftovers_)
      parts_.console.say("a process that a rank has left does not end: pid " + std::to_string(leftover.pid));
    enter(Phase::over, std::nullopt);
  }
}

}  // namespace unisono::launcher

#include "launch/job/ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace unisono::launcher {

using std::chrono::milliseconds;

namespace {

/// The time of ranks that no group tells of another rank's failure.
constexpr milliseconds outsiders_time{2000};
/// The time after SIGKILL is the grace within these limits; a killed process may take a while to release its memory.
constexpr milliseconds shortest_kill_time{1000}, longest_kill_time{5000};

/// Returns text such as "15 s" or "0.2 s".
std::string seconds(milliseconds time) { return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000); }

}  // namespace

Ending::Ending(const JobParts& parts, RankProcesses& processes, RankEnds& ends)
    : parts_(parts), processes_(processes), ends_(ends), leftovers_(parts, processes) {}

void Ending::wait_for(PollSet& set) {
  if (leftovers_.have_begun()) return leftovers_.wait_for(set);
  if (deadline_) set.wake_at(*deadline_);
  if (outsiders_deadline_) set.wake_at(*outsiders_deadline_);
}

void Ending::enter(Phase phase, std::optional<milliseconds> time) {
  phase_ = phase;
  deadline_.reset();
  outsiders_deadline_.reset();
  if (time) deadline_.emplace(*time);
}

void Ending::leave_alone(bool may_go_on) {
  const milliseconds grace = parts_.options.grace;
  enter(Phase::left_alone, grace);
  may_go_on_ = may_go_on;
  std::size_t alive = 0, outsiders = 0;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_.is_alive(i)) continue;
    ++alive;
    if (ends_.is_outsider(i)) ++outsiders;
  }
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
  bool all = true;
  for (std::size_t i = 0; i < processes_.size(); ++i) all = all && (!processes_.is_alive(i) || ends_.is_outsider(i));
  if (all) return ask_to_end(SIGTERM);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_.is_alive(i) || !ends_.is_outsider(i)) continue;
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
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_.is_alive(i)) processes_.ask_to_end(i, signal);
  }
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
  return phase_ < Phase::killed && !leftovers_.have_begun();
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
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (processes_.is_alive(i)) parts_.console.say(fmt::format("rank {} does not end, not even killed: pid {}", ends_[i].rank, processes_.pid(i)));
    }
    processes_.abandon_living();
    enter(Phase::over, std::nullopt);
  }
}

/// A process that the signal has ended at once was a wrapper (a shell, conda run), as far as one can tell: what it has left is the program, which has
/// what is left of the grace.
std::optional<milliseconds> Ending::grace_of_leftovers() const {
  const bool was_wrapper = asked_with_ && std::ranges::any_of(ends_.all(), [&](const RankEnd& end) {
                             return end.ended_by_launcher && end.how == RankEnd::How::signaled && end.code == *asked_with_;
                           });
  return was_wrapper ? std::optional(grace_->left()) : std::nullopt;
}

void Ending::advance_leftovers() {
  if (leftovers_.advance({.is_told = is_told_, .is_again = hurry_, .grace = grace_of_leftovers()})) enter(Phase::over, std::nullopt);
}

}  // namespace unisono::launcher

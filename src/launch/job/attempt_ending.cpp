// The steps in which an attempt ends: after a failure, after a signal, and what its ranks have left running.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launch/job/attempt.h"
#include "launch/process/pidfd.h"

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

/// A failure or interrupt on another host ends our ranks in the same steps.
void Attempt::hear_other_nodes() {
  for (const std::string& text : parts_.nodes->take_news()) parts_.console.say(text, Topic::failing);
  const auto trouble = parts_.nodes->take_trouble();
  if (!trouble || (!any_alive() && !restart_is_due())) return;
  if (trouble->kind == Trouble::Kind::interrupt) {
    parts_.console.say(signal_name(trouble->signal) + " has ended the launcher at " + parts_.nodes->name_of(trouble->node), Topic::interrupt);
    if (parts_.signals != nullptr) parts_.signals->note_request(trouble->signal);
    begin_ending(trouble->signal);
    return;
  }
  if (trouble->kind == Trouble::Kind::displaced) {  // the other job uses what this one's ranks write
    parts_.console.say(trouble->how + "; all are ended", Topic::failing);
    if (is_elastic()) cancel_restarts();
    return ask_to_end(SIGTERM);
  }
  if (trouble->kind == Trouble::Kind::too_few) return fail_elastic(trouble->how, trouble->rank);
  const bool lost = trouble->kind == Trouble::Kind::lost;
  // Where this host is the one that the others have lost, its ranks live so far.
  const bool is_own = trouble->node == parts_.options.node_rank;
  if (!is_own) note_end(std::to_string(trouble->rank), lost ? "lost 0" : trouble->how);
  const std::string text = lost ? fmt::format("the launcher at {} is lost ({})", parts_.nodes->name_of(trouble->node), trouble->how)
                                : fmt::format("rank {} has failed at {}", trouble->rank, parts_.nodes->name_of(trouble->node));
  if (is_elastic()) return fail_elastic(text, -1);
  if (std::exchange(failure_is_new_, true)) return;
  new_failure_ = text;
  failed_rank_.reset();
}

bool Attempt::is_outsider(std::size_t rank) {
  // The status of a rank on another host is known to that host's launcher only.
  return is_in_no_group(status_of(ends_[rank].rank)) || (failed_rank_ && is_in_no_group(status_of(*failed_rank_)));
}

void Attempt::leave_alone() {
  const milliseconds grace = parts_.options.grace;
  enter(Phase::left_alone, grace);
  std::size_t alive = 0, outsiders = 0;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!is_alive(i)) continue;
    ++alive;
    if (is_outsider(i)) ++outsiders;
  }
  const milliseconds shorter = std::min(grace, outsiders_time);
  if (shorter < grace) outsiders_deadline_.emplace(shorter);
  const milliseconds time = outsiders == alive ? shorter : grace;
  std::string text = new_failure_ + (alive == 1 ? "; the other has " : "; the others have ") + seconds(time) + " to end";
  if (outsiders > 0 && outsiders < alive && shorter < grace) text += ", those in no group with it " + seconds(shorter);
  if (parts_.signals != nullptr) text += " (Ctrl-C: now)";
  parts_.console.say(text, Topic::failing);
}

void Attempt::ask_outsiders_to_end() {
  if (!outsiders_deadline_ || phase_ != Phase::left_alone || !outsiders_deadline_->passed()) return;
  outsiders_deadline_.reset();
  observe_ends();  // a rank that is dead by now was not ended by us
  bool all = true;
  for (std::size_t i = 0; i < children_.size(); ++i) all = all && (!is_alive(i) || is_outsider(i));
  if (all) return ask_to_end(SIGTERM);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!is_alive(i) || !is_outsider(i)) continue;
    asked_as_outsider_[i] = true;
    ask_rank_to_end(i, SIGTERM);
  }
}

void Attempt::judge_suspects() {
  if (!judgement_ || !judgement_->passed()) return;
  judgement_.reset();
  for (const std::size_t i : suspects_) {
    RankEnd& end = ends_[i];
    end.status = status_of(end.rank);
    if (!has_not_finalized(end.status) || !was_group_sound(end)) continue;
    end.left_without_finalize = true;
    note_failure(end);
  }
  suspects_.clear();
}

/// Tells whether the group of a rank that has ended had lost nobody before.
bool Attempt::was_group_sound(const RankEnd& end) {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const RankEnd& other = ends_[i];
    if (!other.failed() || other.order >= end.order || status_of(other.rank).starts_with("poisoned")) continue;
    // The group that shrink_group has made is without those that were lost before.
    if (!is_elastic() || end.status != "shrunk" || !(other.is_survived || is_left_out(i))) return false;
  }
  return true;
}

bool Attempt::survivors_have_shrunk() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const std::string status = status_of(ends_[i].rank);
    if (is_alive(i) && status != "shrunk" && status != "finalized") return false;
  }
  return true;
}

void Attempt::enter(Phase phase, std::optional<milliseconds> time) {
  phase_ = phase;
  deadline_.reset();
  outsiders_deadline_.reset();
  if (time) deadline_.emplace(*time);
}

void Attempt::advance() {
  judge_suspects();
  if (is_elastic() && phase_ == Phase::running) advance_elastic();
  if (!any_alive()) {
    if (!judgement_ && !restart_is_due() && !others_go_on()) advance_leftovers();
    return;
  }
  if (phase_ == Phase::running && !is_elastic() && std::exchange(failure_is_new_, false)) {
    if (restart_follows_) {
      ask_to_end(SIGTERM);
    } else {
      leave_alone();
    }
  }
  ask_outsiders_to_end();
  if (!deadline_ || !deadline_->passed()) return;
  if (phase_ == Phase::left_alone) {
    failure_is_new_ = false;
    if (survivors_have_shrunk() && !are_too_few_) {
      enter(Phase::running, std::nullopt);
    } else {
      ask_to_end(SIGTERM);
    }
  } else if (phase_ == Phase::asked) {
    kill_all();
  } else if (phase_ == Phase::killed) {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (is_alive(i))
        parts_.console.say("rank " + std::to_string(ends_[i].rank) + " does not end, not even killed: pid " + std::to_string(children_[i].pid));
    }
    enter(Phase::over, std::nullopt);
  }
}

void Attempt::signal_groups(int signal) {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (is_alive(i)) ::kill(-children_[i].pid, signal);
  }
}

void Attempt::signal_ranks(int signal) {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (is_alive(i)) signal_pidfd(children_[i].pidfd, signal);
  }
}

void Attempt::ask_rank_to_end(std::size_t index, int signal) {
  const pid_t group = children_[index].pid;
  if (signal == SIGINT || signal == SIGQUIT) ::kill(-group, signal);
  else signal_pidfd(children_[index].pidfd, signal);
  ::kill(-group, SIGCONT);  // a stopped process handles SIGTERM only after SIGCONT
}

void Attempt::ask_to_end(int signal) {
  observe_ends();  // a rank that is dead by now was not ended by us
  told_to_end_ = true;
  asked_with_ = signal;
  grace_of_ending_.emplace(parts_.options.grace);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (is_alive(i)) ask_rank_to_end(i, signal);
  }
  enter(Phase::asked, parts_.options.grace);
}

void Attempt::kill_all() {
  observe_ends();
  told_to_end_ = true;
  signal_groups(SIGKILL);
  enter(Phase::killed, std::clamp(parts_.options.grace, shortest_kill_time, longest_kill_time));
}

/// A process that the signal has ended at once was a wrapper (a shell, conda run), as far as one can tell: what it has left is the program, which has
/// what is left of the grace.
milliseconds Attempt::time_of_leftovers() const {
  const bool was_wrapper = asked_with_ && std::ranges::any_of(ends_, [&](const RankEnd& end) {
                             return end.ended_by_launcher && end.how == RankEnd::How::signaled && end.code == *asked_with_;
                           });
  return was_wrapper ? std::max(leftover_time, grace_of_ending_->left()) : leftover_time;
}

void Attempt::advance_leftovers() {
  if (phase_ < Phase::leftovers) {
    leftovers_ = find_leftovers(parts_.job_id, process_groups());
    if (leftovers_.empty()) return enter(Phase::over, std::nullopt);
    enter(Phase::leftovers, told_to_end_ ? milliseconds(0) : leftover_time);
  }
  std::erase_if(leftovers_, [](const Leftover& leftover) { return !leftover.pidfd; });
  const bool time_is_up = deadline_ && (deadline_->passed() || hurry_);
  if (!leftovers_.empty() && !time_is_up) return;
  leftovers_ = find_leftovers(parts_.job_id, process_groups());  // processes found before may have started others
  if (leftovers_.empty()) {
    enter(Phase::over, std::nullopt);
  } else if (!time_is_up) {
    return;
  } else if (phase_ == Phase::leftovers && !hurry_) {
    for (const auto& leftover : leftovers_) {
      leftover.send(SIGTERM);
      leftover.send(SIGCONT);
    }
    enter(Phase::leftovers_asked, time_of_leftovers());
  } else if (phase_ < Phase::leftovers_killed) {
    for (const auto& leftover : leftovers_) leftover.send(SIGKILL);
    enter(Phase::leftovers_killed, 2 * leftover_time);
  } else if (deadline_->passed()) {
    for (const auto& leftover : leftovers_) parts_.console.say("a process that a rank has left does not end: pid " + std::to_string(leftover.pid));
    enter(Phase::over, std::nullopt);
  }
}

void Attempt::handle_signals() {
  while (const auto signal = parts_.signals->next()) handle_signal(*signal);
}

void Attempt::handle_signal(int signal) {
  const auto& forwarded = parts_.options.forwarded_signals;
  if (signal == SIGWINCH) {
    output_.resize();
    parts_.console.resize();
    if (parts_.status_line != nullptr) parts_.status_line->look_soon();
  }
  if (std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end()) {
    signal_ranks(signal);  // its helpers know nothing of it, and would end
  } else if (signal == SIGCONT || signal == SIGWINCH) {
    signal_groups(signal);
  } else if (signal == SIGTSTP) {
    signal_groups(SIGTSTP);
    if (parts_.status_line != nullptr) parts_.status_line->hide();
    parts_.console.flush();
    ::kill(::getpid(), SIGSTOP);  // SIGCONT is read from the descriptor afterwards
  } else {
    interrupt(signal);
  }
}

void Attempt::interrupt(int signal) {
  if (interrupted_by_) {
    hurry_ = true;
    if (phase_ < Phase::killed) {
      parts_.console.say(signal_name(signal) + " again: killing all ranks", Topic::interrupt);
      kill_all();
    }
    return;
  }
  observe_ends(signal);
  const bool failed_before = std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& end) { return end.failed() && !end.ended_by_launcher; });
  if (!failed_before) interrupted_first_ = true;
  leaves_ = parts_.nodes != nullptr && parts_.nodes->is_left_by(signal);
  if (leaves_) {
    parts_.console.say("SIGTERM: this host leaves the job; its ranks are told to end, and a second one kills them", Topic::interrupt);
    return begin_ending(signal);
  }
  if (parts_.nodes != nullptr) parts_.nodes->tell({.kind = Trouble::Kind::interrupt, .signal = signal});
  if (any_alive()) parts_.console.say(signal_name(signal) + ": handed on to all ranks; a second one kills them", Topic::interrupt);
  begin_ending(signal);
}

void Attempt::begin_ending(int signal) {
  interrupted_by_ = signal;
  if (is_elastic()) cancel_restarts();
  if (!any_alive()) return;
  const bool was_asked = phase_ == Phase::asked;
  const auto deadline = deadline_;
  ask_to_end(signal);
  if (was_asked) deadline_ = deadline;
}

}  // namespace unisono::launcher

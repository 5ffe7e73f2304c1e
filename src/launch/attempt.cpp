#include "launch/attempt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "launch/program.h"

namespace unisono::launcher {

using std::chrono::milliseconds;
using How = RankEnd::How;

namespace {

/// For what a rank has left running: first time to end by itself, then after SIGTERM, then after SIGKILL.
constexpr milliseconds leftover_time{500};
/// A last word of a rank to the store may still be on its way when its death is seen.
constexpr milliseconds judgement_time{100};
/// For a rank that nobody tells of the failure of another.
constexpr milliseconds outsiders_time{2000};

/// "15 s", "0.2 s".
std::string seconds(milliseconds time) { return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000); }

std::string how_of(const RankEnd& end) { return (end.how == How::exited ? "exit " : "signal ") + std::to_string(end.code); }

}  // namespace

Attempt::Attempt(const JobParts& parts, int number)
    : parts_(parts),
      number_(number),
      first_rank_(parts.nodes != nullptr ? parts.nodes->first_rank() : parts.options.node_rank * parts.options.ranks),
      master_port_(parts.nodes != nullptr ? parts.nodes->master_port() : parts.options.master_port),
      output_(parts.console, {.first_rank = first_rank_,
                              .ranks = parts.options.ranks,
                              .world_size = parts.world_size,
                              .log_folder = parts.log_folder,
                              .attempt = number,
                              .terminals = parts.options.terminals == Terminals::as_launcher}),
      asked_as_outsider_(static_cast<std::size_t>(parts.options.ranks)),
      memory_events_(parts.options.cgroup_folder) {}

Attempt::~Attempt() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const pid_t pid = children_[i].pid;
    if (pid <= 0) continue;
    ::kill(-pid, SIGKILL);
    // One that even SIGKILL does not end (an uninterruptible wait) is left to the kernel.
    const int options = i < ends_.size() && ends_[i].how == How::running && phase_ == Phase::over ? WNOHANG : 0;
    while (::waitpid(pid, nullptr, options) < 0 && errno == EINTR) {
    }
    parts_.watchdog.forget(pid);
  }
}

void Attempt::run(bool restart_follows) {
  restart_follows_ = restart_follows;
  start();
  while (phase_ != Phase::over) {
    round();
    advance();
  }
  finish();
}

// ---- waiting --------------------------------------------------------------------------------------------------

void Attempt::round() {
  PollSet set;
  parts_.console.wait_for(set);
  output_.wait_for(set);
  parts_.stdin_pump.wait_for(set);
  if (mpi_) mpi_->wait_for(set);
  if (parts_.signals != nullptr) set.add(parts_.signals->fd(), POLLIN, [this](short) { handle_signals(); });
  if (parts_.nodes != nullptr) set.add(parts_.nodes->fd(), POLLIN, [this](short) { hear_other_nodes(); });
  bool death = false;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (is_alive(i)) set.add(children_[i].pidfd.get(), POLLIN, [&death](short) { death = true; });
  }
  for (auto& leftover : leftovers_) {
    if (leftover.pidfd) set.add(leftover.pidfd.get(), POLLIN, [&leftover](short) { leftover.pidfd.reset(); });
  }
  if (deadline_) set.wake_at(*deadline_);
  if (outsiders_deadline_) set.wake_at(*outsiders_deadline_);
  if (judgement_) set.wake_at(*judgement_);
  set.wait();
  if (death) observe_ends();
  if (parts_.stdin_pump.take_typed()) output_.settle_live_lines();
  output_.tick();
  parts_.console.flush();
}

void Attempt::observe_ends() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!is_alive(i)) continue;
    siginfo_t info{};
    // Looked at, not reaped: the number stays ours. A handler of the program's own that takes every child has left us only what the rank said.
    const int seen = ::waitid(P_PIDFD, static_cast<id_t>(children_[i].pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT);
    const bool taken = seen != 0 && errno == ECHILD;
    if (!taken && (seen != 0 || info.si_pid == 0)) continue;
    RankEnd& end = ends_[i];
    end.how = taken || info.si_code == CLD_EXITED ? How::exited : How::signaled;
    end.is_taken = taken;
    end.code = info.si_status;
    end.dumped_core = info.si_code == CLD_DUMPED;
    end.ended_by_launcher = told_to_end_ || asked_as_outsider_[i];
    // It may have been killed before it could hear of that.
    end.out_of_memory = end.how == How::signaled && end.code == SIGKILL && phase_ < Phase::killed && memory_events_.take_kill();
    if (end.out_of_memory) end.ended_by_launcher = false;
    end.order = deaths_++;
    note_end(end.rank, how_of(end));
    end.status = status_of(end.rank);
    if (end.failed()) {
      note_failure(end);
    } else if (end.status == "initialized" && !end.ended_by_launcher) {
      suspects_.push_back(i);
      judgement_.emplace(judgement_time);
    }
  }
}

/// For the other ranks, which see that it is gone but may not see how it ended.
void Attempt::note_end(int rank, const std::string& how) {
  store_->set("unisono/exit/" + std::to_string(rank), how);
  if (!store_->peek("unisono/exit/first")) store_->set("unisono/exit/first", std::to_string(rank) + " " + how);
}

void Attempt::note_failure(const RankEnd& end) {
  if (!std::exchange(failure_is_new_, true)) {
    new_failure_ = fmt::format("rank {} {}", end.rank, end.left_without_finalize ? "left without finalize" : end.describe());
    failed_rank_ = end.rank;
  }
  if (parts_.nodes == nullptr || end.ended_by_launcher || std::exchange(failure_is_told_, true)) return;
  parts_.nodes->tell({.kind = Trouble::Kind::failure, .rank = end.rank, .how = how_of(end)});
}

/// What ends the ranks of another host ends ours, in the same steps.
void Attempt::hear_other_nodes() {
  const auto trouble = parts_.nodes->take_trouble();
  if (!trouble || !any_alive()) return;
  if (trouble->kind == Trouble::Kind::interrupt) {
    parts_.console.say(signal_name(trouble->signal) + " has ended the launcher at " + parts_.nodes->name_of(trouble->node));
    begin_ending(trouble->signal);
    return;
  }
  const bool lost = trouble->kind == Trouble::Kind::lost;
  note_end(trouble->rank, lost ? "lost 0" : trouble->how);
  if (std::exchange(failure_is_new_, true)) return;
  new_failure_ = lost ? fmt::format("the launcher at {} is lost ({})", parts_.nodes->name_of(trouble->node), trouble->how)
                      : fmt::format("rank {} has failed at {}", trouble->rank, parts_.nodes->name_of(trouble->node));
  failed_rank_.reset();
}

bool Attempt::is_outsider(std::size_t rank) {
  // What a rank of another host had said of itself, its own launcher knows.
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
  parts_.console.say(text);
}

void Attempt::ask_outsiders_to_end() {
  if (!outsiders_deadline_ || phase_ != Phase::left_alone || !outsiders_deadline_->passed()) return;
  outsiders_deadline_.reset();
  observe_ends();  // one that is dead by now was not ended by us
  bool all = true;
  for (std::size_t i = 0; i < children_.size(); ++i) all = all && (!is_alive(i) || is_outsider(i));
  if (all) return ask_to_end(SIGTERM);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!is_alive(i) || !is_outsider(i)) continue;
    asked_as_outsider_[i] = true;
    ::kill(-children_[i].pid, SIGTERM);
    ::kill(-children_[i].pid, SIGCONT);  // a stopped one would not hear it
  }
}

void Attempt::judge_suspects() {
  if (!judgement_ || !judgement_->passed()) return;
  judgement_.reset();
  for (const std::size_t i : suspects_) {
    RankEnd& end = ends_[i];
    end.status = status_of(end.rank);
    const bool group_was_sound = std::none_of(ends_.begin(), ends_.end(), [&](const RankEnd& other) {
      return other.failed() && other.order < end.order && !status_of(other.rank).starts_with("poisoned");
    });
    if (end.status != "initialized" || !group_was_sound) continue;
    end.left_without_finalize = true;
    note_failure(end);
  }
  suspects_.clear();
}

bool Attempt::any_alive() const {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (is_alive(i)) return true;
  }
  return false;
}

std::string Attempt::status_of(int rank) { return store_->peek("unisono/status/" + std::to_string(rank)).value_or(""); }

bool Attempt::survivors_have_shrunk() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const std::string status = status_of(ends_[i].rank);
    if (is_alive(i) && status != "shrunk" && status != "finalized") return false;
  }
  return true;
}

// ---- ending ---------------------------------------------------------------------------------------------------

void Attempt::enter(Phase phase, std::optional<milliseconds> time) {
  phase_ = phase;
  deadline_.reset();
  outsiders_deadline_.reset();
  if (time) deadline_.emplace(*time);
}

void Attempt::advance() {
  judge_suspects();
  if (!any_alive()) {
    if (!judgement_) advance_leftovers();
    return;
  }
  if (phase_ == Phase::running && std::exchange(failure_is_new_, false)) {
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
    if (survivors_have_shrunk()) {
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

void Attempt::ask_to_end(int signal) {
  observe_ends();  // whoever is dead by now was not ended by us
  told_to_end_ = true;
  signal_groups(signal);
  signal_groups(SIGCONT);  // a stopped one would not hear it
  enter(Phase::asked, parts_.options.grace);
}

void Attempt::kill_all() {
  observe_ends();
  told_to_end_ = true;
  signal_groups(SIGKILL);
  enter(Phase::killed, std::clamp<milliseconds>(parts_.options.grace, std::chrono::seconds(1), std::chrono::seconds(5)));
}

void Attempt::advance_leftovers() {
  if (phase_ < Phase::leftovers) {
    std::vector<pid_t> groups;
    for (const auto& child : children_) groups.push_back(child.pid);
    leftovers_ = find_leftovers(parts_.job_id, groups);
    enter(Phase::leftovers, told_to_end_ ? milliseconds(0) : leftover_time);
  }
  std::erase_if(leftovers_, [](const Leftover& leftover) { return !leftover.pidfd; });
  const bool time_is_up = deadline_ && (deadline_->passed() || hurry_);
  if (!leftovers_.empty() && !time_is_up) return;
  std::vector<pid_t> groups;
  for (const auto& child : children_) groups.push_back(child.pid);
  leftovers_ = find_leftovers(parts_.job_id, groups);  // those we knew may have started others
  if (leftovers_.empty()) {
    enter(Phase::over, std::nullopt);
  } else if (!time_is_up) {
    return;
  } else if (phase_ == Phase::leftovers && !hurry_) {
    for (const auto& leftover : leftovers_) {
      leftover.send(SIGTERM);
      leftover.send(SIGCONT);
    }
    enter(Phase::leftovers_asked, leftover_time);
  } else if (phase_ < Phase::leftovers_killed) {
    for (const auto& leftover : leftovers_) leftover.send(SIGKILL);
    enter(Phase::leftovers_killed, 2 * leftover_time);
  } else if (deadline_->passed()) {
    for (const auto& leftover : leftovers_) parts_.console.say("a process that a rank has left does not end: pid " + std::to_string(leftover.pid));
    enter(Phase::over, std::nullopt);
  }
}

void Attempt::finish() {
  output_.drain();
  for (auto& end : ends_) end.status = status_of(end.rank);
  cause_ = first_cause(ends_);
  store_.reset();
}

const std::deque<std::string>& Attempt::last_lines(int rank) const {
  static const std::deque<std::string> none;
  const int local = rank - first_rank_;
  if (local < 0 || local >= parts_.options.ranks) return none;
  return output_.unseen_last_lines(static_cast<std::size_t>(local));
}

// ---- signals --------------------------------------------------------------------------------------------------

void Attempt::handle_signals() {
  while (const auto signal = parts_.signals->next()) handle_signal(*signal);
}

void Attempt::handle_signal(int signal) {
  const auto& forwarded = parts_.options.forwarded_signals;
  if (signal == SIGWINCH) output_.resize();
  if (std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end() || signal == SIGCONT || signal == SIGWINCH) {
    signal_groups(signal);
  } else if (signal == SIGTSTP) {
    signal_groups(SIGTSTP);
    parts_.console.flush();
    ::kill(::getpid(), SIGSTOP);  // SIGCONT comes through the descriptor afterwards
  } else {
    interrupt(signal);
  }
}

void Attempt::interrupt(int signal) {
  if (interrupted_by_) {
    hurry_ = true;
    if (phase_ < Phase::killed) {
      parts_.console.say(signal_name(signal) + " again: killing all ranks");
      kill_all();
    }
    return;
  }
  observe_ends();
  const bool failed_before = std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& end) { return end.failed(); });
  if (!failed_before) interrupted_first_ = true;
  if (parts_.nodes != nullptr) parts_.nodes->tell({.kind = Trouble::Kind::interrupt, .signal = signal});
  if (any_alive()) parts_.console.say(signal_name(signal) + ": handed on to all ranks; a second one kills them");
  begin_ending(signal);
}

void Attempt::begin_ending(int signal) {
  interrupted_by_ = signal;
  if (!any_alive()) return;
  const bool was_asked = phase_ == Phase::asked;
  const auto deadline = deadline_;
  ask_to_end(signal);
  if (was_asked) deadline_ = deadline;
}

}  // namespace unisono::launcher

#include "launch/job/attempt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "launch/process/program.h"
#include "recorder/dump.h"
#include "recorder/trace_file.h"

namespace unisono::launcher {

using std::chrono::milliseconds;
using How = RankEnd::How;

namespace {

/// The last status of a rank may reach the store this much later than its death is seen.
constexpr milliseconds judgement_time{100};

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
      memory_events_(parts.options.cgroup_folder, parts.options.cgroup_period) {}

Attempt::~Attempt() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const pid_t pid = children_[i].pid;
    if (pid <= 0) continue;
    ::kill(-pid, SIGKILL);
    // A process that even SIGKILL does not end (in an uninterruptible wait) is left to the kernel.
    const int options = i < ends_.size() && ends_[i].how == How::running && phase_ == Phase::over ? WNOHANG : 0;
    while (::waitpid(pid, nullptr, options) < 0 && errno == EINTR) {
    }
    parts_.watchdog.forget(pid);
  }
  for (const Child& child : replaced_) {
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    parts_.watchdog.forget(child.pid);
  }
}

void Attempt::run(int restarts_left) {
  restarts_left_ = restarts_left;
  restart_follows_ = restarts_left > 0;
  start();
  while (phase_ != Phase::over) {
    round();
    advance();
  }
  finish();
}

void Attempt::round() {
  PollSet set;
  parts_.console.wait_for(set);
  output_.wait_for(set);
  parts_.stdin_pump.wait_for(set);
  if (parts_.status_line != nullptr) parts_.status_line->wait_for(set);
  if (mpi_) mpi_->wait_for(set);
  memory_events_.wait_for(set);
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
  if (next_look_) set.wake_at(*next_look_);
  if (doubt_ && decides()) set.wake_at(*doubt_);
  if (elastic_hosts_) elastic_hosts_->wait_for(set);
  for (const RankPlace& place : places_) {
    if (place.restart) set.wake_at(*place.restart);
    if (place.patience) set.wake_at(*place.patience);
  }
  set.wait();
  if (death) observe_ends();
  if (parts_.stdin_pump.take_typed()) {
    output_.settle_live_lines();
    parts_.console.note_typed();
  }
  memory_events_.tick();
  output_.tick();
  if (parts_.status_line != nullptr) parts_.status_line->tick();
  parts_.console.flush();
}

/// Notes the ranks that have ended. `request`: the signal by which the job has just been asked to end. Slurm sends it to the ranks as well, and one
/// that it has ended before its launcher saw it has not failed.
void Attempt::observe_ends(std::optional<int> request) {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!is_alive(i)) continue;
    siginfo_t info{};
    // WNOWAIT leaves the process unreaped, so its number stays ours. ECHILD means that a SIGCHLD handler of the program has reaped it; then only the
    // status of the rank is known.
    const int seen = ::waitid(P_PIDFD, static_cast<id_t>(children_[i].pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT);
    const bool taken = seen != 0 && errno == ECHILD;
    if (!taken && (seen != 0 || info.si_pid == 0)) continue;
    RankEnd& end = ends_[i];
    end.how = taken || info.si_code == CLD_EXITED ? How::exited : How::signaled;
    end.is_taken = taken;
    end.code = info.si_status;
    end.dumped_core = info.si_code == CLD_DUMPED;
    const bool was_requested = request && end.how == How::signaled && info.si_status == *request;
    end.ended_by_launcher = told_to_end_ || asked_as_outsider_[i] || was_requested;
    // The kernel may have killed the rank before the launcher's signal reached it.
    end.out_of_memory = end.how == How::signaled && end.code == SIGKILL && phase_ < Phase::killed && memory_events_.take_kill();
    if (end.out_of_memory) end.ended_by_launcher = false;
    end.order = deaths_++;
    if (const auto& record = records_[i]; record && *record) recorder::note_ended(record->get());
    note_end(end.name, how_of(end));
    if (elastic_hosts_) elastic_hosts_->tell_end(end.name, how_of(end));
    end.status = status_of(end.rank);
    if (end.failed()) {
      note_failure(end);
    } else if (has_not_finalized(end.status) && !end.ended_by_launcher) {
      suspects_.push_back(i);
      judgement_.emplace(judgement_time);
    }
  }
}

/// Tells the other ranks how this one ended. They see that it is gone, but not always how.
void Attempt::note_end(const std::string& name, const std::string& how) {
  store_->set("unisono/exit/" + name, how);
  if (is_of_the_start(name) && !store_->peek("unisono/exit/first")) store_->set("unisono/exit/first", name + " " + how);
}

void Attempt::note_failure(const RankEnd& end) {
  if (!std::exchange(failure_is_new_, true)) {
    new_failure_ = fmt::format("rank {} {}", end.rank, end.left_without_finalize ? "left without finalize" : end.describe());
    failed_rank_ = end.rank;
  }
  if (parts_.nodes == nullptr || is_elastic() || end.ended_by_launcher || std::exchange(failure_is_told_, true)) return;
  parts_.nodes->tell({.kind = Trouble::Kind::failure, .rank = end.rank, .how = how_of(end)});
}

std::vector<pid_t> Attempt::process_groups() const {
  std::vector<pid_t> groups;
  for (const auto& child : children_) groups.push_back(child.pid);
  for (const auto& child : replaced_) groups.push_back(child.pid);
  return groups;
}

bool Attempt::any_alive() const {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (is_alive(i)) return true;
  }
  return false;
}

std::string Attempt::status_of(int rank) { return store_->peek("unisono/status/" + std::to_string(rank)).value_or(""); }

void Attempt::finish() {
  output_.drain();
  if (parts_.status_line != nullptr) parts_.status_line->hide();
  for (auto& end : ends_) end.status = status_of(end.rank);
  if (elastic_hosts_) elastic_hosts_->finish();
  hear_elastic_hosts();
  if (!is_elastic()) {
    cause_ = first_cause(ends_);
  } else {
    for (std::size_t i = 0; i < ends_.size(); ++i) ends_[i].is_well = has_ended_well(i);
    // On several hosts what has ended here says nothing of the job.
    if (parts_.nodes == nullptr || are_too_few_) cause_ = first_cause_of_elastic(ends_, parts_.least_ranks, are_too_few_);
  }
  if (cause_) keep_records();
  store_.reset();
}

/// Writes the records of the ranks that could not do so themselves.
void Attempt::keep_records() const {
  for (std::size_t i = 0; i < records_.size(); ++i) keep_record(i);
}

void Attempt::keep_record(std::size_t index) const {
  const auto folder = parts_.options.environment.get(recorder::folder_variable);
  if (folder && records_[index] && *records_[index]) recorder::dump_ended(*records_[index], *folder);
}

std::vector<recorder::RankSeen> Attempt::records() const {
  std::vector<recorder::RankSeen> seen;
  for (const auto& record : records_) {
    if (const auto reader = record && *record ? recorder::RecordReader::open(*record) : nullptr) seen.push_back(reader->read(0));
  }
  return seen;
}

const std::deque<std::string>& Attempt::last_lines(int rank) const {
  static const auto& none = *new const std::deque<std::string>;
  const int local = rank - first_rank_;
  if (local < 0 || local >= parts_.options.ranks) return none;
  return output_.unseen_last_lines(static_cast<std::size_t>(local));
}

}  // namespace unisono::launcher

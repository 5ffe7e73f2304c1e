#include "launch/job/ranks.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/reach.h"

namespace unisono::launcher {

using How = RankEnd::How;

namespace {

constexpr const char* first_end_key = "unisono/exit/first";

std::string status_key(int rank) { return "unisono/status/" + std::to_string(rank); }
std::string lost_key(const std::string& name) { return "unisono/lost/" + name; }

/// The last status of a rank may reach the store this much later than its death is seen.
constexpr std::chrono::milliseconds judgement_time{100};

}  // namespace

RankStore::RankStore(const std::string& job_id, int attempt, int first_rank, int ranks) {
  // Ranks that connect before the server runs wait in the queue of this socket.
  base::Opened listening = base::try_listen(rendezvous::launcher_address(job_id, attempt));
  listening_ = std::move(listening.fd);
  if (!listening_) base::warn(fmt::format("programs that close what they inherit cannot join as ranks: {}", error_text(listening.error)));
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    Connection connection = connect(rank);
    own_ends_.push_back(std::move(connection.of_store));
    rank_ends_.push_back(std::move(connection.of_rank));
  }
}

RankStore::Connection RankStore::connect(int rank) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw StartFailed(fmt::format("cannot make a socket for rank {}: {}", rank, error_text(errno)), 1);
  }
  return {.of_store = base::FileDescriptor(ends[0]), .of_rank = base::FileDescriptor(ends[1])};
}

void RankStore::serve(const Hosts& hosts, int attempt, const std::string& placement) {
  rank_ends_.clear();
  server_ = std::make_unique<store::StoreServer>(store::ServerOptions{.family_of = ::getpid()});
  hosts.tell_ranks(*server_, attempt);  // first: a rank that finds nothing takes this host for the only one
  server_->set(rendezvous::placement_key, placement);
  if (hosts.terms().least_ranks > 0) server_->set(rendezvous::elastic_key, "1");
  if (listening_) server_->listen(std::move(listening_));
  for (auto& end : own_ends_) server_->adopt(std::move(end));
  own_ends_.clear();
}

void RankStore::adopt(int rank, Connection connection) {
  server_->set(status_key(rank), "");  // which the new process may write from the next line on
  server_->adopt(std::move(connection.of_store));
}

std::string RankStore::status_of(int rank) const { return server_->peek(status_key(rank)).value_or(""); }

void RankStore::note_end(const std::string& name, const std::string& how) {
  server_->set("unisono/exit/" + name, how);
  if (!is_of_the_start(name)) return;
  const bool is_done = how == "exit 0" && server_->peek("unisono/status/" + name).value_or("") == "finalized";
  note_first_end(name + " " + how + (is_done ? std::string(rendezvous::done_mark) : ""));
}

bool RankStore::has_end_of(const std::string& name) const { return server_->peek("unisono/exit/" + name).has_value(); }

void RankStore::note_first_end(const std::string& text) {
  const auto known = server_->peek(first_end_key);
  if (!known || known->ends_with(rendezvous::done_mark)) server_->set(first_end_key, text);
}

bool RankStore::is_left_out(const std::string& name) const { return server_->peek(lost_key(name)).has_value(); }

void RankStore::leave_out(const std::string& name) { server_->set(lost_key(name), "1"); }

RankProcesses::~RankProcesses() {
  const auto bury = [this](pid_t pid, int options) {
    reap(pid, options);
    watchdog_.forget(pid);
  };
  for (std::size_t i = 0; i < size(); ++i) {
    if (pid(i) <= 0) continue;
    kill(i);
    bury(pid(i), is_alive(i) && is_abandoned_ ? WNOHANG : 0);
  }
  for (const pid_t dead : replaced_) bury(dead, 0);
}

void RankProcesses::put(std::size_t index, Child child) noexcept {
  if (pid(index) > 0) replaced_.push_back(pid(index));
  processes_[index] = {.child = std::move(child)};
}

std::vector<std::size_t> RankProcesses::living() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_alive(i)) all.push_back(i);
  }
  return all;
}

std::optional<RankProcesses::End> RankProcesses::take_end(std::size_t index) {
  if (!is_alive(index)) return std::nullopt;
  siginfo_t info{};
  // WNOWAIT leaves the process unreaped, so its number stays ours. ECHILD means that a SIGCHLD handler of the program has reaped it; then only the
  // status of the rank is known.
  const int seen = ::waitid(P_PIDFD, static_cast<id_t>(processes_[index].child.pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT);
  const bool taken = seen != 0 && errno == ECHILD;
  if (!taken && (seen != 0 || info.si_pid == 0)) return std::nullopt;
  processes_[index].has_ended = true;
  return End{.how = taken || info.si_code == CLD_EXITED ? RankEnd::How::exited : RankEnd::How::signaled,
             .code = info.si_status,
             .dumped_core = info.si_code == CLD_DUMPED,
             .is_taken = taken};
}

void RankProcesses::wait_for(PollSet& set, const std::function<void()>& ended) const {
  for (const std::size_t i : living()) set.add(processes_[i].child.pidfd.get(), POLLIN, [ended](short) { ended(); });
}

void RankProcesses::signal_groups(int signal) const {
  for (const std::size_t i : living()) ::kill(-pid(i), signal);
}

void RankProcesses::signal_ranks(int signal) const {
  for (const std::size_t i : living()) signal_pidfd(processes_[i].child.pidfd, signal);
}

void RankProcesses::ask_to_end(std::size_t index, int signal) const {
  if (signal == SIGINT || signal == SIGQUIT) ::kill(-pid(index), signal);
  else signal_pidfd(processes_[index].child.pidfd, signal);
  ::kill(-pid(index), SIGCONT);  // a stopped process handles SIGTERM only after SIGCONT
}

void RankProcesses::kill(std::size_t index) const { ::kill(-pid(index), SIGKILL); }

std::vector<pid_t> RankProcesses::groups() const {
  std::vector<pid_t> groups;
  for (const Process& process : processes_) groups.push_back(process.child.pid);
  groups.insert(groups.end(), replaced_.begin(), replaced_.end());
  return groups;
}

std::string how_of(const RankEnd& end) { return (end.how == How::exited ? "exit " : "signal ") + std::to_string(end.code); }

RankEnds::RankEnds(const JobOptions& options, const JobTerms& terms, RankProcesses& processes, RankStore& store)
    : processes_(processes),
      store_(store),
      is_elastic_(terms.least_ranks > 0),
      memory_events_(options.cgroup_folder, options.cgroup_period),
      told_(static_cast<std::size_t>(options.ranks)) {
  for (int rank = terms.first_rank; rank < terms.first_rank + options.ranks; ++rank) {
    const std::string number = std::to_string(rank);
    ends_.push_back({.rank = rank, .name = terms.is_late ? number + ".1" : number, .host = base::host_name()});
  }
}

void RankEnds::on_end(std::function<void(std::size_t)> ended, std::function<void(const RankEnd&)> failed) {
  ended_ = std::move(ended);
  failed_ = std::move(failed);
}

void RankEnds::replace(std::size_t index, std::string name, pid_t pid) {
  ends_[index] = {.rank = ends_[index].rank, .name = std::move(name), .pid = pid, .host = base::host_name()};
}

RankEnd RankEnds::end_of(std::size_t index, const RankProcesses::End& seen, std::optional<int> request) {
  RankEnd end = ends_[index];
  end.how = seen.how;
  end.code = seen.code;
  end.dumped_core = seen.dumped_core;
  end.is_taken = seen.is_taken;
  const bool is_signaled = end.how == How::signaled;
  end.ended_by_launcher = told_[index] || (request && is_signaled && end.code == *request);
  // The kernel may have killed the rank before the launcher's signal reached it.
  end.out_of_memory = is_signaled && end.code == SIGKILL && !are_killed_ && memory_events_.take_kill();
  if (end.out_of_memory) end.ended_by_launcher = false;
  end.order = deaths_++;
  return end;
}

void RankEnds::observe(std::optional<int> request) {
  for (std::size_t i = 0; i < size(); ++i) {
    const auto seen = processes_.take_end(i);
    if (!seen) continue;
    RankEnd& end = ends_[i];
    end = end_of(i, *seen, request);
    store_.note_end(end.name, how_of(end));
    ended_(i);
    end.status = store_.status_of(end.rank);
    if (end.failed()) {
      note_failure(end);
    } else if (has_not_finalized(end.status) && !end.ended_by_launcher) {
      suspects_.push_back(i);
      judgement_.emplace(judgement_time);
    }
  }
}

void RankEnds::note_failure(const RankEnd& end) {
  failure_.note(fmt::format("rank {} {}", end.rank, end.left_without_finalize ? "left without finalize" : end.describe()), end.rank);
  failed_(end);
}

void RankEnds::judge() {
  if (!judgement_ || !judgement_->passed()) return;
  judgement_.reset();
  for (const std::size_t i : suspects_) {
    RankEnd& end = ends_[i];
    end.status = store_.status_of(end.rank);
    if (!has_not_finalized(end.status) || !was_group_sound(end)) continue;
    end.left_without_finalize = true;
    note_failure(end);
  }
  suspects_.clear();
}

/// Tells whether the group of a rank that has ended had lost nobody before.
bool RankEnds::was_group_sound(const RankEnd& end) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const RankEnd& other = ends_[i];
    if (!other.failed() || other.order >= end.order || store_.status_of(other.rank).starts_with("poisoned")) continue;
    // The group that shrink_group has made is without those that were lost before.
    if (!is_elastic_ || end.status != "shrunk" || !(other.is_survived || is_left_out(i))) return false;
  }
  return true;
}

void RankEnds::wait_for(PollSet& set) const {
  memory_events_.wait_for(set);
  if (judgement_) set.wake_at(*judgement_);
}

void RankEnds::read_statuses() {
  for (RankEnd& end : ends_) end.status = store_.status_of(end.rank);
}

bool RankEnds::have_failed() const {
  return std::ranges::any_of(ends_, [](const RankEnd& end) { return end.failed() && !end.ended_by_launcher; });
}

bool RankEnds::is_outsider(std::size_t index) const {
  // The status of a rank on another host is known to that host's launcher only.
  return is_in_no_group(index) || (failure_.rank() && launcher::is_in_no_group(store_.status_of(*failure_.rank())));
}

bool RankEnds::has_ended_well(std::size_t index) const {
  const RankEnd& end = ends_[index];
  if (end.how != How::exited || end.failed() || is_left_out(index)) return false;
  return !has_not_finalized(end.status) && !end.status.starts_with("poisoned") && !end.status.starts_with("mismatch");
}

bool RankEnds::survivors_have_shrunk() const {
  return std::ranges::all_of(processes_.living(), [this](std::size_t i) {
    const std::string status = store_.status_of(ends_[i].rank);
    return status == "shrunk" || status == "finalized" || (status == "controlled" && !store_.has_end_of("0"));
  });
}

bool RankEnds::are_controlled() const {
  return std::ranges::all_of(processes_.living(), [this](std::size_t i) { return store_.status_of(ends_[i].rank) == "controlled"; }) &&
         !store_.has_end_of("0");
}

}  // namespace unisono::launcher

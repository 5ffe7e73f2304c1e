#include "launch/job/rank_processes.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "launch/process/pidfd.h"

namespace unisono::launcher {

RankProcesses::~RankProcesses() {
  for (std::size_t i = 0; i < size(); ++i) {
    if (pid(i) <= 0) continue;
    kill(i);
    reap(pid(i), is_alive(i) && is_abandoned_ ? WNOHANG : 0);
  }
  for (const pid_t dead : replaced_) reap(dead, 0);
}

void RankProcesses::reap(pid_t pid, int options) const {
  while (::waitpid(pid, nullptr, options) < 0 && errno == EINTR) {
  }
  watchdog_.forget(pid);
}

void RankProcesses::put(std::size_t index, Child child) {
  if (pid(index) > 0) replaced_.push_back(pid(index));
  processes_[index] = {.child = std::move(child)};
}

bool RankProcesses::any_alive() const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_alive(i)) return true;
  }
  return false;
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
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_alive(i)) set.add(processes_[i].child.pidfd.get(), POLLIN, [ended](short) { ended(); });
  }
}

void RankProcesses::signal_groups(int signal) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_alive(i)) ::kill(-pid(i), signal);
  }
}

void RankProcesses::signal_ranks(int signal) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_alive(i)) signal_pidfd(processes_[i].child.pidfd, signal);
  }
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

std::vector<int> RankProcesses::descriptors() const {
  std::vector<int> all;
  for (const Process& process : processes_) {
    if (process.child.pidfd) all.push_back(process.child.pidfd.get());
  }
  return all;
}

}  // namespace unisono::launcher

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "launch/process/child.h"
#include "launch/process/first_cause.h"
#include "launch/process/poll_set.h"
#include "launch/process/watchdog.h"

namespace unisono::launcher {

/// The processes of one attempt's ranks, by their places on this host: which of them live. Dead ranks stay unreaped until the end, which keeps their
/// numbers, so that a signal to their process groups cannot reach other processes.
///
/// A request to end goes to the process of a rank alone: it may need its helpers (workers that load data) until its work is kept, and ends them
/// itself. What a terminal sends to a process group (Ctrl-C, Ctrl-\) goes to the group, as do SIGKILL and all that stops and resumes.
class RankProcesses {
 public:
  RankProcesses(const Watchdog& watchdog, int places) : watchdog_(watchdog), processes_(static_cast<std::size_t>(places)) {}
  ~RankProcesses();  ///< kills and reaps whatever still runs
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// A process was started in this place. A dead one there before it stays unreaped as well.
  void put(std::size_t index, Child child);
  std::size_t size() const { return processes_.size(); }
  bool is_alive(std::size_t index) const { return processes_[index].child.pid > 0 && !processes_[index].has_ended; }
  bool any_alive() const;
  pid_t pid(std::size_t index) const { return processes_[index].child.pid; }

  /// How a process was seen to end.
  struct End {
    RankEnd::How how = RankEnd::How::exited;
    int code = 0;
    bool dumped_core = false;
    bool is_taken = false;  ///< somebody else has reaped it
  };
  /// Returns how the process in this place has ended, once.
  std::optional<End> take_end(std::size_t index);
  /// Calls `ended` in a round in which a process ends.
  void wait_for(PollSet& set, const std::function<void()>& ended) const;

  void signal_groups(int signal) const;
  void signal_ranks(int signal) const;
  void ask_to_end(std::size_t index, int signal) const;
  void kill(std::size_t index) const;
  /// A process that even SIGKILL does not end (in an uninterruptible wait) is left to the kernel.
  void abandon_living() { is_abandoned_ = true; }
  /// Returns the process groups of all ranks, those of replaced ones as well.
  std::vector<pid_t> groups() const;
  /// Returns the launcher's descriptors that a child without exec has to close.
  std::vector<int> descriptors() const;

 private:
  void reap(pid_t pid, int options) const;

  struct Process {
    Child child = {};
    bool has_ended = false;
  };
  const Watchdog& watchdog_;
  std::vector<Process> processes_;
  std::vector<pid_t> replaced_;
  bool is_abandoned_ = false;
};

}  // namespace unisono::launcher

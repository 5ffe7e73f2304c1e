#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "launch/hosts/hosts.h"
#include "launch/job_options.h"
#include "launch/process/child.h"
#include "launch/process/first_cause.h"
#include "launch/process/memory_events.h"
#include "launch/process/poll_set.h"
#include "launch/process/watchdog.h"
#include "store/server.h"

namespace unisono::launcher {

/// The launcher's store as the ranks of this host use it in one attempt: the status that each has written last, and what they are told of each
/// other's ends.
class RankStore {
 public:
  /// Makes the connections of the ranks that start together.
  RankStore(const std::string& job_id, int attempt, int first_rank, int ranks);

  /// Returns the rank's end of its connection, by its place on this host.
  int rank_end(std::size_t index) const { return rank_ends_[index].get(); }
  /// Call it when the first ranks have been started, because the server has a thread. `placement`: what they are told of their cores.
  void serve(const Hosts& hosts, int attempt, const std::string& placement);
  void close() { server_.reset(); }

  /// A connection of a rank that is started later.
  struct Connection {
    base::FileDescriptor of_store, of_rank;
  };
  /// Throws StartFailed.
  static Connection connect(int rank);
  /// The rank has been started, and its status is that of a new process.
  void adopt(int rank, Connection connection);

  std::string status_of(int rank) const;
  /// Tells the ranks how one of them ended. They see that it is gone, but not always how.
  void note_end(const std::string& name, const std::string& how);
  /// Tells whether they were told so of this process.
  bool has_end_of(const std::string& name) const;
  /// Tells the ranks that meet for the first time of one that will not come.
  void note_first_end(const std::string& text);
  /// Tells whether the other ranks go on without this process.
  bool is_left_out(const std::string& name) const;
  void leave_out(const std::string& name);

 private:
  base::FileDescriptor listening_;
  std::vector<base::FileDescriptor> rank_ends_;  ///< until the ranks have been started
  std::vector<base::FileDescriptor> own_ends_;   ///< until they are served
  std::unique_ptr<store::StoreServer> server_;
};

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

  /// Call it before a process is started, so that `put` does not fail.
  void make_room() { replaced_.reserve(replaced_.size() + 1); }
  /// A process was started in this place. A dead one there before it stays unreaped as well.
  void put(std::size_t index, Child child) noexcept;
  std::size_t size() const { return processes_.size(); }
  bool is_alive(std::size_t index) const { return processes_[index].child.pid > 0 && !processes_[index].has_ended; }
  /// Returns the places whose processes live.
  std::vector<std::size_t> living() const;
  bool any_alive() const { return !living().empty(); }
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

 private:
  struct Process {
    Child child = {};
    bool has_ended = false;
  };
  const Watchdog& watchdog_;
  std::vector<Process> processes_;
  std::vector<pid_t> replaced_;
  bool is_abandoned_ = false;
};

/// Returns "exit 7" or "signal 9": what other ranks and launchers are told of an end.
std::string how_of(const RankEnd& end);

/// A failure to which the job has to respond.
class Failure {
 public:
  /// `text`: such as "rank 2 exited with code 1"; `rank`: if it is one of this host. Of several that nobody has taken, the first counts.
  void note(std::string text, std::optional<int> rank) {
    if (!std::exchange(is_new_, true)) replace(std::move(text), rank);
  }
  /// The job responds to this one, whatever there was before.
  void replace(std::string text, std::optional<int> rank) {
    text_ = std::move(text);
    rank_ = rank;
  }
  /// Returns true once after a failure.
  bool take() { return std::exchange(is_new_, false); }
  const std::string& text() const { return text_; }
  const std::optional<int>& rank() const { return rank_; }

 private:
  bool is_new_ = false;
  std::string text_;
  std::optional<int> rank_;
};

/// How each rank of one attempt has ended on this host, and whether it has failed by itself. A rank that ends with code 0 and has not finalized is a
/// suspect for a moment, because its last status may be on its way.
class RankEnds {
 public:
  RankEnds(const JobOptions& options, const JobTerms& terms, RankProcesses& processes, RankStore& store);
  /// `ended` is called for each process that is seen to end, before its status is read; `failed` for each that has failed.
  void on_end(std::function<void(std::size_t)> ended, std::function<void(const RankEnd&)> failed);

  const std::vector<RankEnd>& all() const { return ends_; }
  std::size_t size() const { return ends_.size(); }
  const RankEnd& operator[](std::size_t index) const { return ends_[index]; }
  RankEnd& at(std::size_t index) { return ends_[index]; }
  /// A process was started in this place.
  void replace(std::size_t index, std::string name, pid_t pid);

  /// Notes the ranks that have ended. `request`: the signal by which the job has just been asked to end. Slurm sends it to the ranks as well, and one
  /// that it has ended before its launcher saw it has not failed.
  void observe(std::optional<int> request = {});
  /// Decides on suspects when their time is over.
  void judge();
  bool is_judging() const { return judgement_.has_value(); }
  void wait_for(PollSet& set) const;
  /// Call it at the end of a round.
  void tick() { memory_events_.tick(); }
  /// Reads what the ranks have written last.
  void read_statuses();

  /// What ends from now on has not failed by itself.
  void note_told(std::size_t index) { told_[index] = true; }
  void note_all_told() { told_.assign(told_.size(), true); }
  void note_killed() { are_killed_ = true; }

  Failure& failure() { return failure_; }
  /// Tells whether a rank has failed by itself.
  bool have_failed() const;
  /// Tells whether no group tells this rank of the failure.
  bool is_outsider(std::size_t index) const;
  bool is_left_out(std::size_t index) const { return store_.is_left_out(ends_[index].name); }
  /// Tells whether the rank is in no group, by its status.
  bool is_in_no_group(std::size_t index) const { return launcher::is_in_no_group(store_.status_of(ends_[index].rank)); }
  bool has_ended_well(std::size_t index) const;
  /// Tells whether all ranks that live have shrunk their group or finalized.
  bool survivors_have_shrunk() const;
  /// Tells whether all ranks that live are those of a controller, which lives as well.
  bool are_controlled() const;

 private:
  RankEnd end_of(std::size_t index, const RankProcesses::End& seen, std::optional<int> request);
  void note_failure(const RankEnd& end);
  bool was_group_sound(const RankEnd& end) const;

  RankProcesses& processes_;
  RankStore& store_;
  const bool is_elastic_;
  MemoryEvents memory_events_;
  std::function<void(std::size_t)> ended_;
  std::function<void(const RankEnd&)> failed_;
  std::vector<RankEnd> ends_;
  int deaths_ = 0;
  std::vector<bool> told_;  ///< by place: to end
  bool are_killed_ = false;
  std::vector<std::size_t> suspects_;  ///< ended with code 0, but had not finalized by their last status
  std::optional<base::Deadline> judgement_;
  Failure failure_;
};

}  // namespace unisono::launcher

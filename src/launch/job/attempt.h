#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/hosts/nodes.h"
#include "launch/job_options.h"
#include "launch/mpi/mpi_world.h"
#include "launch/output/output.h"
#include "launch/process/child.h"
#include "launch/process/first_cause.h"
#include "launch/process/host.h"
#include "launch/process/leftovers.h"
#include "launch/process/memory_events.h"
#include "launch/process/poll_set.h"
#include "launch/process/stdin_pump.h"
#include "launch/view/job_view.h"
#include "launch/view/status_line.h"
#include "recorder/reader.h"
#include "store/server.h"

namespace unisono::launcher {

/// The parts that last as long as the job, across its attempts.
struct JobParts {
  const JobOptions& options;
  const Task& task;
  const std::string& job_id;
  const std::vector<int>& cpus;
  const Watchdog& watchdog;
  Console& console;
  StdinPump& stdin_pump;
  SignalScope* signals;  ///< null if signals are not handled
  Nodes* nodes;          ///< null on one host, or if the ranks find each other without a launcher
  int world_size;
  int least_ranks;                ///< the job goes on while so many live, on all hosts together; 0: every failure ends it
  const std::string& log_folder;  ///< the folder of this job; empty if there is none
  std::size_t descriptor_limit;
  int openmp_share;         ///< found once: the system is asked for each figure
  JobView* view;            ///< null for a function
  StatusLine* status_line;  ///< null where none is shown
};

/// An attempt is one start of all ranks, until all have ended:
///
///   running --a rank fails--> left alone --grace--> asked to end --grace--> killed --> leftovers --> over
///
/// Left alone, the ranks learn of the failure themselves; if all that live have shrunk their group by the end of the grace, the job goes on. A rank
/// that shares no group with the failed one learns nothing: it is asked to end after two seconds, or after the grace if that is shorter. Ctrl-C leads
/// to "asked to end" at once, a second one to "killed". Dead ranks stay unreaped until the end, which keeps their numbers, so that a signal to their
/// process groups cannot reach other processes.
///
/// A request to end goes to the process of a rank alone: it may need its helpers (workers that load data) until its work is kept, and ends them
/// itself. What a terminal sends to a process group (Ctrl-C, Ctrl-\) goes to the group, as do SIGKILL and all that stops and resumes.
class Attempt {
 public:
  Attempt(const JobParts& parts, int number);
  ~Attempt();  ///< kills and reaps whatever still runs
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// `restarts_left`: where there are any, a failure ends all ranks at once. A job that goes on without lost ranks uses them to replace these.
  void run(int restarts_left);

  /// Returns how many processes were started in the place of lost ones.
  int replacements() const noexcept { return replacements_; }

  const std::vector<RankEnd>& ends() const noexcept { return ends_; }
  std::optional<std::size_t> cause() const noexcept { return cause_; }
  /// Returns what this host's ranks have recorded, without their calls.
  std::vector<recorder::RankSeen> records() const;
  /// The signal that ended the attempt from outside.
  std::optional<int> interrupted_by() const noexcept { return interrupted_by_; }
  /// Returns false where a rank had failed before the signal: then the rank is the first cause.
  bool interrupted_first() const noexcept { return interrupted_first_; }
  /// Returns true where the signal ends this host's part alone, and the job goes on elsewhere.
  bool leaves() const noexcept { return leaves_; }
  /// Returns the last lines of a rank's standard error, or else of its output. Empty where they have just been shown, and for a rank of another host.
  const std::deque<std::string>& last_lines(int rank) const;

 private:
  enum class Phase { running, left_alone, asked, killed, leftovers, leftovers_asked, leftovers_killed, over };

  void start();
  void start_rank(int local_rank, base::FileDescriptor store_end);
  /// Makes the file in which a rank keeps its calls.
  base::FileDescriptor make_record(int rank) const;
  std::vector<int> descriptors_to_close(int local_rank) const;
  // In a job that goes on while enough ranks live (attempt_replacing.cpp):
  bool is_elastic() const { return parts_.least_ranks > 0; }
  void advance_elastic();
  std::vector<std::size_t> note_lost();
  HostTally tally();
  HostTally tally_of_others() const;
  bool decides() const { return parts_.nodes == nullptr || parts_.options.node_rank == 0; }
  bool others_go_on() const;
  void hear_elastic_hosts();
  void hear_grant(int rank, int number);
  void announce(std::size_t index, bool is_replaced);
  void announce_replacement(std::size_t index, int number, int all);
  bool has_too_few(const HostTally& all);
  void end_those_left_out();
  void replace(std::size_t index);
  void start_newcomer(std::size_t index);
  /// Returns how the process in this place was lost, or why none was started there.
  std::string loss(std::size_t index) const;
  void fail_elastic(const std::string& why, int last_lost);
  int cancel_restarts();
  bool is_member(std::size_t index);
  bool has_ended_well(std::size_t index);
  bool is_left_out(std::size_t index) { return store_->peek("unisono/lost/" + ends_[index].name).has_value(); }
  bool restart_is_due() const;

  void round();
  void advance();
  void advance_leftovers();
  std::chrono::milliseconds time_of_leftovers() const;
  void finish();
  void keep_records() const;
  void keep_record(std::size_t index) const;
  void observe_ends(std::optional<int> request = {});
  void note_end(const std::string& name, const std::string& how);
  void note_failure(const RankEnd& end);
  /// Says that a rank has failed, and how long the others have.
  void leave_alone();
  void ask_outsiders_to_end();
  bool is_outsider(std::size_t rank);
  void hear_other_nodes();
  void begin_ending(int signal);
  void judge_suspects();
  bool was_group_sound(const RankEnd& end);
  bool is_alive(std::size_t rank) const { return ends_[rank].how == RankEnd::How::running && children_[rank].pid > 0; }
  bool any_alive() const;
  bool survivors_have_shrunk();
  std::string status_of(int rank);
  std::vector<pid_t> process_groups() const;
  void signal_groups(int signal);
  void signal_ranks(int signal);
  void ask_rank_to_end(std::size_t index, int signal);
  void ask_to_end(int signal);
  void kill_all();
  void handle_signals();
  void handle_signal(int signal);
  void interrupt(int signal);
  void enter(Phase phase, std::optional<std::chrono::milliseconds> time);

  const JobParts& parts_;
  const int number_;
  const int first_rank_;
  int master_port_ = 0;
  OutputMultiplexer output_;
  std::vector<Child> children_;
  std::vector<RankEnd> ends_;
  std::vector<base::FileDescriptor> store_ends_;  ///< the ranks' ends, until they are started
  /// The place of a rank, in a job that goes on without lost ranks.
  struct RankPlace {
    bool is_lost = false;                        ///< its process has ended, and was not replaced so far
    bool is_asked = false;                       ///< on several hosts: it has asked for a restart, and has no answer yet
    std::optional<base::Deadline> restart = {};  ///< when another process starts in its place
    int restarts = 0;
    std::string not_started = {};                 ///< why the last start of another process there has failed
    std::optional<base::Deadline> patience = {};  ///< of a process that the others have left out, until it is killed
  };
  std::vector<RankPlace> places_;            ///< by local rank
  std::vector<Child> replaced_;              ///< dead processes that others have replaced; they stay unreaped as the others do
  std::optional<base::Deadline> next_look_;  ///< of a job that goes on without lost ranks: for news in the store
  int restarts_left_ = 0, replacements_ = 0;
  int last_lost_ = -1;                                                ///< the rank of this host that was lost last
  std::unique_ptr<ElasticHosts> elastic_hosts_;                       ///< null on one host
  ElasticHosts::News news_;                                           ///< what it has said last
  std::optional<base::Deadline> doubt_;                               ///< set while the tallies of all hosts say that too few are left
  bool are_too_few_ = false;                                          ///< too few ranks were left, and the attempt ends
  std::vector<std::shared_ptr<const base::FileDescriptor>> records_;  ///< of the ranks' calls, by local rank: they outlast the ranks
  std::vector<int> server_ends_;                                      ///< the launcher's ends, by number, for children that do not exec
  std::unique_ptr<store::StoreServer> store_;
  std::optional<PortReservation> port_;
  std::unique_ptr<MpiWorld> mpi_;        ///< null unless the backend is mpi
  std::vector<bool> asked_as_outsider_;  ///< by local rank
  MemoryEvents memory_events_;
  std::vector<Leftover> leftovers_;
  std::vector<std::size_t> suspects_;  ///< ended with code 0, but had not finalized by their last status
  std::optional<base::Deadline> judgement_;
  Phase phase_ = Phase::running;
  std::optional<base::Deadline> deadline_;
  std::optional<base::Deadline> outsiders_deadline_;  ///< set while ranks are left alone that share no group with the failed one
  std::optional<int> interrupted_by_;
  std::optional<std::size_t> cause_;
  bool interrupted_first_ = false;
  bool leaves_ = false;
  bool restart_follows_ = false;
  bool told_to_end_ = false;
  std::optional<int> asked_with_;                  ///< the signal by which all ranks were asked to end last
  std::optional<base::Deadline> grace_of_ending_;  ///< begun with it
  bool failure_is_new_ = false;
  std::string new_failure_;         ///< such as "rank 2 exited with code 1"
  std::optional<int> failed_rank_;  ///< the rank of new_failure_, if it is on this host
  bool failure_is_told_ = false;
  bool hurry_ = false;  ///< the user has interrupted twice
  int deaths_ = 0;
};

}  // namespace unisono::launcher

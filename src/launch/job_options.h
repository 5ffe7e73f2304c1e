#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/process/first_cause.h"
#include "launch/process/memory_events.h"
#include "launch/process/program.h"
#include "launch/process/stdin_pump.h"

namespace unisono::launcher {

/// The largest number of ranks of a job; a larger one is taken for a mistake.
inline constexpr int most_ranks = 1 << 16;

/// Which processors ranks are bound to (launch/job/placement.h).
enum class Binding {
  none,
  core,   ///< one core each, whoever else is there
  l3,     ///< all cores of one third-level cache each, unless somebody else binds them or uses the cores
  numa,   ///< all cores of one NUMA node each, likewise
  share,  ///< their shares of the cores, unless somebody else binds them or uses the cores
};
enum class OutputMode {
  prefixed,   ///< "[rank] " before every line, --logs, tail of the first cause in the summary
  inherited,  ///< the ranks write to the launcher's standard output and error themselves
};
enum class SignalMode {
  handled,  ///< Ctrl-C and the like end the job with grace
  left,     ///< signals are the caller's business; if one ends the caller, the ranks end too
};

/// The output of a rank where the launcher writes to a terminal.
enum class Terminals {
  as_launcher,  ///< a terminal of its own for output and one for errors
  none,         ///< a pipe, as without a terminal
};

/// The launcher's own messages on standard error: where the logs are, the account of a failure, restarts.
enum class Verbosity { normal, silent };

/// The hosts of a job, and how their launchers meet. Each host has a launcher of its own.
struct HostOptions {
  int nnodes = 1;
  int min_nnodes = 0;  ///< hosts may come and go while so many are there, up to nnodes; 0: nnodes take part, from begin to end
  std::chrono::milliseconds last_call = std::chrono::seconds(30);  ///< with it: how long min_nnodes hosts wait for more, at the start
  int node_rank = 0;                                               ///< number of this host: its ranks come after those of the hosts before it
  bool node_rank_is_said = true;                                   ///< the user, or a batch system, has said which one it is
  bool any_node_rank = false;    ///< node_rank is what the store says, or if hosts come and go: 0 if master_addr is this host's, and free
  std::string master_addr = {};  ///< the address of the first host, where the launchers meet; empty: this host
  int master_port = 0;           ///< 0: any free one; on several hosts 29500
  std::string store = {};        ///< an etcd:// URL where the launchers meet, in place of master_addr
  std::shared_ptr<base::FileDescriptor> listening = {};          ///< of host 0: a socket that listens at master_addr already
  std::string token_file = {};                                   ///< the file with the job's secret; empty: UNISONO_TOKEN
  std::chrono::milliseconds silence = std::chrono::seconds(30);  ///< a launcher of another host that is silent for so long is lost
  base::Reminder::Pace waiting = {std::chrono::seconds(3), std::chrono::seconds(30)};  ///< when to say which hosts are waited for

  bool come_and_go() const { return min_nnodes > 0; }
};

/// What a launcher shows of its job.
struct ShownOptions {
  OutputMode output = OutputMode::prefixed;
  Terminals terminals = Terminals::as_launcher;
  std::string log_directory = {};  ///< gets a folder for this job; empty: none
  std::string log_name = {};       ///< of that folder, where all hosts use the same; empty: by the time and the job
  Verbosity verbosity = Verbosity::normal;
  bool summary = false;                  ///< at the end: how long the job took, how the ranks ended, and who was waited for
  bool status_line = false;              ///< on a terminal: what the ranks do, in its last row
  std::optional<int> metrics_port = {};  ///< of loopback, where the counts of this host's ranks are served; 0: any free one; nothing: nowhere
  int conductor = -1;  ///< a descriptor for the launcher's own messages (Console), where another process shows those of all hosts; -1: none

  bool has_conductor() const { return conductor >= 0; }
};

/// A job, or the part of it that this host runs. Every rank runs either `command` or `function`.
struct JobOptions {
  int ranks = 1;  ///< on this host
  /// The job goes on, and lost ranks are replaced, while so many ranks live; 0: every failure ends it.
  int min_ranks = 0;
  /// Of a function: so many ranks of the job come before these, and are no processes of this launcher.
  int ranks_before = 0;
  HostOptions hosts = {};
  ShownOptions shown = {};
  std::vector<std::string> command = {};  ///< program (looked up along PATH) and its arguments
  /// Runs in the forked child with the rank's variables (RANK, UNISONO_LAUNCHER_FD, …) and returns the exit code. Call run_job before threads exist.
  std::function<int(const base::Environment&)> function = {};
  /// Called once the ranks have been started and their store is served, with the variables that lead to it, and the ranks' processes.
  std::function<void(const base::Environment&, std::vector<pid_t>)> started = {};
  std::string backend = {};  ///< the ranks' UNISONO_BACKEND; empty: unchanged. For mpi the ranks become a world of MPI's
  int max_restarts = 0;
  std::string trace_folder = {};  ///< gets a file with all calls of each rank; empty: none
  std::chrono::milliseconds grace = std::chrono::seconds(15);
  Binding binding = Binding::none;
  std::vector<int> forwarded_signals = {SIGUSR1, SIGUSR2};               ///< sent on to the ranks, without further effect
  std::string cgroup_folder = {};                                        ///< where the kernel counts out-of-memory kills; empty: that of this process
  std::chrono::milliseconds cgroup_period = MemoryEvents::usual_period;  ///< between two looks at it
  StdinTarget standard_input = {};                                       ///< rank 0 by default
  SignalMode signals = SignalMode::handled;
  base::Environment environment = base::Environment::process();
};

struct JobResult {
  int exit_code = 0;                            ///< the first cause's; 128 + signal after Ctrl-C and the like
  std::optional<std::size_t> first_cause = {};  ///< index into `ends`
  std::optional<int> interrupted_by = {};       ///< the signal that ended the job from outside
  int attempts = 0;
  int replacements = 0;            ///< processes that were started in the place of lost ones
  std::vector<RankEnd> ends = {};  ///< of the last attempt, in the order of the ranks; of all hosts, as far as they are known
};

/// Returns the pause before restart 1, 2, 3, …: 1, 2, 4, … seconds, at most 32.
inline std::chrono::milliseconds back_off(int restart) {
  constexpr int most_doublings = 5;
  return std::chrono::seconds(1 << std::min(restart - 1, most_doublings));
}

}  // namespace unisono::launcher

#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/reminder.h"
#include "launch/first_cause.h"
#include "launch/program.h"
#include "launch/stdin_pump.h"

namespace unisono::launcher {

/// Of a job; more is a mistake.
inline constexpr int most_ranks = 1 << 16;

enum class Binding { none, core };
enum class OutputMode {
  prefixed,   ///< "[rank] " before every line, --logs, tail of the first cause in the summary
  inherited,  ///< the ranks write to the launcher's standard output and error themselves
};
enum class SignalMode {
  handled,  ///< Ctrl-C and the like end the job with grace
  left,     ///< signals are the caller's business; if one ends him, the ranks end too
};

/// What a rank writes to where the launcher writes to a terminal.
enum class Terminals {
  as_launcher,  ///< a terminal, of its own for output and for errors
  none,         ///< a pipe, as everywhere else
};

/// What the launcher itself has to say on standard error: where the logs are, the account of a failure, restarts.
enum class Verbosity { normal, silent };

/// A job, or the part of it that this host runs. Either `command` or `function` says what every rank runs.
struct JobOptions {
  int ranks = 1;                          ///< on this host
  int nnodes = 1;                         ///< hosts; of several, every one has a launcher of its own
  int node_rank = 0;                      ///< of this host: its ranks come after those of the hosts before it
  std::string master_addr = {};           ///< of several hosts, the first one's address, where their launchers meet; empty: this host
  std::vector<std::string> command = {};  ///< program (looked up along PATH) and its arguments
  /// Runs in the forked child; gets the rank's variables (RANK, UNISONO_LAUNCHER_FD, …); returns the exit code. Call run_job before threads exist.
  std::function<int(const base::Environment&)> function = {};
  std::string backend = {};  ///< the ranks' UNISONO_BACKEND; empty: as it is. Of mpi, the ranks are made a world of MPI's
  int max_restarts = 0;
  std::string log_directory = {};  ///< gets a folder for this job; empty: none
  std::chrono::milliseconds grace = std::chrono::seconds(15);
  Binding binding = Binding::none;
  std::vector<int> forwarded_signals = {SIGUSR1, SIGUSR2};       ///< handed on to the ranks, and nothing else
  int master_port = 0;                                           ///< 0: any free one; of several hosts, where their launchers meet, then 0 is 29500
  std::string token_file = {};                                   ///< of several hosts: holds the job's secret; empty: the environment says it
  std::chrono::milliseconds silence = std::chrono::seconds(30);  ///< a launcher of another host that says nothing for so long is lost
  base::Reminder::Pace waiting = {std::chrono::seconds(3), std::chrono::seconds(30)};  ///< of several hosts: when to say which ones are waited for
  std::string cgroup_folder = {};  ///< where the kernel counts what it kills for want of memory; empty: that of this process
  OutputMode output = OutputMode::prefixed;
  Terminals terminals = Terminals::as_launcher;
  StdinTarget standard_input = {};  ///< who gets it: rank 0
  SignalMode signals = SignalMode::handled;
  Verbosity verbosity = Verbosity::normal;
  base::Environment environment = base::Environment::process();
};

struct JobResult {
  int exit_code = 0;                            ///< of the first cause; 128 + signal after Ctrl-C and the like
  std::optional<std::size_t> first_cause = {};  ///< index into `ends`
  std::optional<int> interrupted_by = {};       ///< the signal that ended the job from outside
  int attempts = 0;
  std::vector<RankEnd> ends = {};  ///< of the last attempt, in the order of the ranks; of all hosts, as far as they are known
};

/// Starts the ranks, watches them to their end and leaves nothing behind. Call it from a thread that lives as long as the job (the kernel ends the
/// ranks with it). InvalidArgument for options that make no sense, StartFailed where the job could not be started.
JobResult run_job(const JobOptions& options);

}  // namespace unisono::launcher

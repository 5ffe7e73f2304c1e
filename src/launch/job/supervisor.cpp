#include "launch/job/supervisor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/deadline.h"
#include "base/host.h"
#include "base/log.h"
#include "base/processors.h"
#include "launch/hosts/nodes.h"
#include "launch/hosts/one_host.h"
#include "launch/hosts/store_meeting.h"
#include "launch/job/attempt.h"
#include "launch/job/observers.h"
#include "launch/job/report.h"
#include "launch/job/summary.h"
#include "launch/process/host.h"
#include "launch/process/program.h"

namespace unisono::launcher {

using std::chrono::milliseconds;

namespace {

/// Returns "1 rank", "2 ranks".
std::string counted(int number, std::string_view what) { return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s"); }

void check_stdin(const JobOptions& options, int world_size) {
  const StdinTarget& target = options.standard_input;
  if (target.kind == StdinTarget::Kind::one && target.rank >= world_size) {
    throw InvalidArgument(fmt::format("standard input is to go to rank {}, and the last rank is {}", target.rank, world_size - 1));
  }
}

/// A job that goes on without lost ranks is one of unisono's own: MPI forms no world anew.
void check_elastic(const JobOptions& options) {
  const std::string backend = options.backend.empty() ? options.environment.get("UNISONO_BACKEND").value_or("") : options.backend;
  if (backend.find("mpi") != std::string::npos) {
    throw InvalidArgument("MIN:MAX is not possible with backend mpi, whose ranks cannot go on after a death");
  }
  if (options.function) throw InvalidArgument("the ranks of a function are not replaced");
}

/// Throws StartFailed where the launcher could not watch its ranks. Programs may do without shared memory.
void check_system(const JobOptions& options) {
  std::string all;
  for (const base::RefusedCall& call : base::refused_calls()) {
    if (call.name == "memfd_create" && !options.function) continue;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", call.text(), base::remedy_of_refusal(call.name, call.error));
  }
  if (!all.empty()) throw StartFailed(all, 1);
}

void check(const JobOptions& options) {
  if (options.ranks < 1 || options.ranks > most_ranks) {
    throw InvalidArgument(fmt::format("the number of ranks must be from 1 to {}, not {}", most_ranks, options.ranks));
  }
  if (options.min_ranks < 0 || options.min_ranks > options.ranks) {
    throw InvalidArgument(fmt::format("the job cannot go on with {} ranks where it starts {}", options.min_ranks, options.ranks));
  }
  if (options.min_ranks > 0 || options.hosts.come_and_go()) check_elastic(options);
  if (options.command.empty() == !options.function) throw InvalidArgument("a job runs either a command or a function");
  if (options.grace < milliseconds(0)) throw InvalidArgument("the grace must not be negative");
  if (options.max_restarts < 0) throw InvalidArgument("the number of restarts must not be negative");
  if (options.hosts.master_port < 0 || options.hosts.master_port > highest_port) throw InvalidArgument("the master port must be from 0 to 65535");
  if (options.hosts.nnodes < 1 || options.hosts.nnodes > most_ranks / options.ranks) {
    throw InvalidArgument(fmt::format("the number of nodes must be at least 1, and of ranks at most {} in all, not {} nodes with {} ranks",
                                      most_ranks, options.hosts.nnodes, options.ranks));
  }
  if (options.hosts.node_rank < 0 || options.hosts.node_rank >= options.hosts.nnodes) {
    throw InvalidArgument(fmt::format("the node rank must be from 0 to {}, not {}", options.hosts.nnodes - 1, options.hosts.node_rank));
  }
  if (!options.hosts.store.empty()) {
    if (options.hosts.nnodes == 1) throw InvalidArgument("several hosts meet in a store, and --nnodes does not say how many");
    if (!options.hosts.master_addr.empty()) throw InvalidArgument("the hosts meet in the store or at an address, not both: --store, --master-addr");
  } else if (options.hosts.nnodes > 1 && !options.command.empty() && options.hosts.master_addr.empty()) {
    throw InvalidArgument("a job of several hosts needs the address of the first one, where they meet: --master-addr; or --store");
  }
  if (options.hosts.nnodes == 1) check_stdin(options, options.ranks);
  if (options.shown.metrics_port && (*options.shown.metrics_port < 0 || *options.shown.metrics_port > highest_port))
    throw InvalidArgument("the port of the metrics must be from 0 to 65535");
  if (options.hosts.silence <= milliseconds(0)) throw InvalidArgument("the time of silence must be positive");
  check_system(options);
}

/// Tells whether ranks may have terminals, which then follow the size of ours.
bool passes_terminal_on(const JobOptions& options) {
  return options.shown.output == OutputMode::prefixed && options.shown.terminals == Terminals::as_launcher &&
         (::isatty(STDOUT_FILENO) || ::isatty(STDERR_FILENO));
}

std::vector<int> handled_signals(const JobOptions& options) {
  std::vector<int> signals{SIGINT, SIGTERM, SIGQUIT, SIGTSTP, SIGCONT};
  if (!is_ignored(SIGHUP)) signals.push_back(SIGHUP);  // nohup asks the program to go on without its terminal
  if (passes_terminal_on(options) || shows_status_line(options)) signals.push_back(SIGWINCH);
  signals.insert(signals.end(), options.forwarded_signals.begin(), options.forwarded_signals.end());
  return signals;
}

/// Logs the choices at level info only (UNISONO_LOG=info), because nothing is wrong.
void say_what_was_chosen(const JobOptions& options) {
  if (base::log_level() > base::LogLevel::info) return;
  const std::string cores = counted(base::allowed_processors(), "core"), ranks = counted(options.ranks, "rank");
  // The process of a function has already read its environment, so nothing is set for it.
  if (!options.function && !options.environment.has("OMP_NUM_THREADS")) {
    base::info(fmt::format("OMP_NUM_THREADS={} for each rank ({}, {})", openmp_share(options.ranks), cores, ranks));
  }
  if (options.ranks > base::allowed_processors()) base::info(fmt::format("{} share {}", ranks, cores));
}

/// Waits before a restart. Returns a signal that arrives meanwhile; it forbids the restart.
std::optional<int> wait_for_restart(milliseconds time, SignalScope* signals, Console& console) {
  const base::Deadline deadline(time);
  while (!deadline.passed()) {
    PollSet set;
    console.wait_for(set);
    if (signals != nullptr) set.add(signals->fd(), POLLIN, [](short) {});
    set.wake_at(deadline);
    set.wait();
    console.flush();
    while (signals != nullptr) {
      const auto signal = signals->next();
      if (!signal) break;
      if (std::ranges::find(ending_signals, *signal) != ending_signals.end()) return signal;
      if (*signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
    }
  }
  return std::nullopt;
}

/// How an attempt has ended, on all hosts as far as that is known.
struct Ended {
  bool leaves = false;             ///< a signal takes this host alone out of the job
  bool interrupted_first = false;  ///< the signal came before any failure
  std::optional<Trouble> trouble = {};
};

/// Waits for the other hosts' ranks to end, and takes their reports. A first signal is passed on to the others, a second one ends the wait. Returns
/// false where it ends the wait, or takes this host alone out of the job.
bool await_others(const JobParts& parts, JobResult& result, Ended& ended) {
  Hosts& hosts = parts.hosts;
  while (!hosts.all_ended()) {
    PollSet set;
    parts.console.wait_for(set);
    hosts.wait_for(set, [&] { hosts.take_trouble(); });
    if (parts.signals != nullptr) set.add(parts.signals->fd(), POLLIN, [](short) {});
    set.wait();
    parts.console.flush();
    while (const auto signal = parts.signals != nullptr ? parts.signals->next() : std::nullopt) {
      if (std::ranges::find(ending_signals, *signal) == ending_signals.end()) continue;
      const bool gives_up = std::exchange(result.interrupted_by, signal).has_value();
      ended.leaves = !gives_up && hosts.is_left_by(*signal);
      if (ended.leaves) {
        parts.console.say(signal_name(*signal) + ": this host leaves the job; its ranks have ended before", Topic::interrupt);
        return false;
      }
      hosts.tell({.kind = Trouble::Kind::interrupt, .signal = *signal});
      parts.console.say(
          signal_name(*signal) + (gives_up ? " again: not waiting for the other hosts" : ": the other hosts are told to end their ranks"),
          Topic::interrupt);
      if (gives_up) return false;
    }
  }
  return true;
}

/// Puts together how the ranks of all hosts have ended.
void put_together(const JobParts& parts, JobResult& result, Ended& ended) {
  Hosts& hosts = parts.hosts;
  if (!hosts.are_several()) return;
  hosts.end(result.ends);
  const bool is_complete = await_others(parts, result, ended);
  if (ended.leaves) return;
  const auto trouble = hosts.first_trouble();
  auto ends = hosts.ends();  // none where host 0 is lost
  const bool is_lost = trouble && trouble->kind == Trouble::Kind::lost;
  if (is_complete && (!ends.empty() || is_lost)) {
    if (!ends.empty()) result.ends = std::move(ends);
    result.first_cause = first_cause_of_hosts(result.ends, hosts.terms().least_ranks, trouble);
  }
  result.replacements = hosts.replacements();
  ended.trouble = hosts.first_trouble();
  ended.interrupted_first = ended.trouble && ended.trouble->kind == Trouble::Kind::interrupt;
  if (ended.interrupted_first) result.interrupted_by = ended.trouble->signal;
}

/// Tells whether the launchers of the hosts, and no rank, are why the job has ended; says so then.
bool is_caused_by_launchers(const JobParts& parts, JobResult& result, const std::optional<Trouble>& trouble) {
  if (!trouble) return false;
  const bool is_explained =
      result.first_cause && !is_consequence(result.ends[*result.first_cause]) && !is_only_named(result.ends[*result.first_cause]);
  const bool is_lost = trouble->kind == Trouble::Kind::lost && !is_explained;
  if (!is_lost && trouble->kind != Trouble::Kind::displaced) return false;
  parts.console.say(
      "first cause: " + (is_lost ? fmt::format("the launcher at {} is lost: {}", parts.hosts.name_of(trouble->node), trouble->how) : trouble->how),
      Topic::lost);
  result.exit_code = 1;
  return true;
}

/// Says why the job has failed. Where a conductor shows the messages of all hosts, only the host of the first cause does so: it has the rank's last
/// lines.
void account_for_failure(const JobParts& parts, const Attempt& attempt, const JobResult& result) {
  const int cause = result.ends[*result.first_cause].rank;
  if (parts.options.shown.has_conductor() && parts.hosts.node_of(cause) != parts.options.hosts.node_rank) return;
  report_failure(parts.console, result.ends, *result.first_cause, attempt.last_lines(cause));
}

/// Carries out one attempt and judges it. Returns whether another one follows.
bool attempt_once(const JobParts& parts, JobResult& result) {
  const int max_restarts = parts.terms().max_restarts;
  parts.hosts.begin(result.attempts);
  Attempt attempt(parts, result.attempts, max_restarts - result.attempts - result.replacements);
  ++result.attempts;
  attempt.run();
  result.replacements += attempt.replacements();
  result.ends = attempt.ends();
  add_waits(result.ends, attempt.records());
  result.first_cause = attempt.cause();
  result.interrupted_by = attempt.interrupted_by();
  Ended ended{.leaves = attempt.leaves(), .interrupted_first = attempt.interrupted_first()};
  if (!ended.leaves) put_together(parts, result, ended);
  if (ended.leaves) {
    result.exit_code = exit_signaled + *result.interrupted_by;
    return false;
  }
  if (is_caused_by_launchers(parts, result, ended.trouble)) return false;
  result.exit_code = result.first_cause ? exit_code_of_job(result.ends, *result.first_cause) : 0;
  if (result.interrupted_by && ended.interrupted_first) {
    result.exit_code = exit_signaled + *result.interrupted_by;
    return false;
  }
  if (!result.first_cause) return false;
  account_for_failure(parts, attempt, result);
  const int restarts_left = max_restarts - (result.attempts - 1) - result.replacements;
  if (result.interrupted_by && restarts_left > 0) parts.hosts.give_up_restart(result.attempts, *result.interrupted_by);
  const bool is_host_lost = ended.trouble && ended.trouble->kind == Trouble::Kind::lost;
  if (result.interrupted_by || is_host_lost || restarts_left <= 0 || parts.terms().is_open) return false;
  const milliseconds pause = back_off(result.attempts);
  parts.console.say(fmt::format("restart {} of {} in {} s", result.attempts + result.replacements, max_restarts, pause.count() / 1000),
                    Topic::restart);
  if (const auto signal = wait_for_restart(pause, parts.signals, parts.console)) {
    parts.hosts.give_up_restart(result.attempts, *signal);
    result.interrupted_by = signal;
    result.exit_code = exit_signaled + *signal;
    return false;
  }
  return true;
}

}  // namespace

void write_out(Console& console, SignalScope* signals) {
  console.flush();
  while (!console.is_empty()) {
    bool give_up = false;
    PollSet set;
    console.wait_for(set);
    if (signals != nullptr) {
      set.add(signals->fd(), POLLIN, [&](short) {
        while (const auto signal = signals->next())
          give_up = give_up || (*signal != SIGCONT && *signal != SIGUSR1 && *signal != SIGUSR2 && *signal != SIGWINCH);
      });
    }
    set.wait();
    if (give_up) return;
    console.flush();
  }
}

JobResult run_job(const JobOptions& given) {
  check(given);
  JobOptions options = given;
  open_standard_descriptors();
  Task task{.arguments = options.command, .function = options.function};
  if (!task.function) task.path = find_program(options.command.front(), options.environment);
  const DescriptorLimit limit(64 + 9 * static_cast<std::size_t>(options.ranks));
  const std::vector<int> cpus = allowed_cpus();
  const std::string job_id = random_id();
  const LogFolder logs =
      options.shown.log_directory.empty() ? LogFolder{} : make_log_folder(options.shown.log_directory, job_id, options.shown.log_name);
  const Watchdog watchdog(job_id);
  const KeptChildren kept_children;
  std::optional<StoreMeeting> meeting;
  if (!options.hosts.store.empty()) meeting.emplace(options);
  std::unique_ptr<Hosts> hosts;  // the ranks of a function find those of other hosts by themselves
  if (options.hosts.nnodes > 1 && !task.function) hosts = std::make_unique<Nodes>(options);
  else hosts = std::make_unique<OneHost>(options, job_id);
  options.hosts.node_rank = hosts->terms().node;
  std::unique_ptr<SeatWatch> seat;
  if (meeting) seat = meeting->watch([&hosts](const std::string& why) { hosts->tell({.kind = Trouble::Kind::displaced, .how = why}); });
  std::optional<SignalScope> signals;
  if (options.signals == SignalMode::handled) signals.emplace(handled_signals(options), options.forwarded_signals);
  SignalScope* const signal_scope = signals ? &*signals : nullptr;
  Console console(options.environment, options.shown.verbosity, options.shown.conductor);
  console.tell_met();
  StdinPump stdin_pump(options.standard_input);
  say_what_was_chosen(options);
  check_stdin(options, hosts->terms().world_size);
  Observers observers(options, job_id, hosts->terms().world_size, console, *hosts);
  if (!logs.path.empty()) console.say("logs: " + logs.path, Topic::logs);
  if (!logs.warning.empty()) console.say("warning: " + logs.warning);
  console.flush();
  const JobParts parts{options,          task,
                       job_id,           cpus,
                       watchdog,         console,
                       stdin_pump,       signal_scope,
                       *hosts,           logs.path,
                       limit.original(), openmp_share(options.ranks),
                       observers.view(), observers.status_line()};

  JobResult result;
  const auto start = base::Clock::now();
  while (attempt_once(parts, result)) {
  }
  if (options.shown.summary && options.hosts.node_rank == 0) {
    console.say(summary_of_ends(result.ends, base::Clock::now() - start));
    if (const std::string waits = summary_of_waits(result.ends); !waits.empty()) console.say(waits);
  }
  write_out(console, signal_scope);
  if (result.exit_code == 0 && console.has_lost_output()) result.exit_code = 1;
  return result;
}

}  // namespace unisono::launcher

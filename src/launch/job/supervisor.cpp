#include "launch/job/supervisor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/deadline.h"
#include "base/host.h"
#include "launch/hosts/nodes.h"
#include "launch/hosts/store_meeting.h"
#include "launch/job/attempt.h"
#include "launch/job/report.h"
#include "launch/process/host.h"
#include "launch/process/program.h"
#include "launch/view/http_server.h"
#include "launch/view/metrics.h"
#include "launch/view/state_server.h"

namespace unisono::launcher {

using std::chrono::milliseconds;

namespace {

void check_stdin(const JobOptions& options, int world_size) {
  const StdinTarget& target = options.standard_input;
  if (target.kind == StdinTarget::Kind::one && target.rank >= world_size) {
    throw InvalidArgument(fmt::format("standard input cannot go to rank {}: the last rank is {}", target.rank, world_size - 1));
  }
}

/// Throws StartFailed if the launcher could not watch its ranks. Programs may do without shared memory.
void check_system(const JobOptions& options) {
  std::string all;
  for (const base::RefusedCall& call : base::refused_calls()) {
    if (call.name == "memfd_create" && !options.function) continue;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", call.text(), base::remedy_of_refusal(call.name, call.error));
  }
  if (!all.empty()) throw StartFailed(all, 1);
}

void check(const JobOptions& options) {
  const HostOptions& hosts = options.hosts;
  const auto refuse_if = [](bool is_wrong, const std::string& text) {
    if (is_wrong) throw InvalidArgument(text);
  };
  const auto is_no_port = [](int port) { return port < 0 || port > highest_port; };
  refuse_if(options.ranks < 1 || options.ranks > most_ranks,
            fmt::format("the number of ranks must be from 1 to {}, not {}", most_ranks, options.ranks));
  refuse_if(options.min_ranks < 0 || options.min_ranks > options.ranks,
            fmt::format("the job cannot go on with {} ranks if it starts {}", options.min_ranks, options.ranks));
  const bool is_elastic = options.min_ranks > 0 || hosts.come_and_go();
  // Such a job is one of unisono's own: MPI forms no world anew.
  refuse_if(is_elastic && asks_for_mpi(options), "MIN:MAX is not possible with backend mpi, whose ranks cannot go on after a death");
  refuse_if(is_elastic && options.function, "the ranks of a function are not replaced");
  refuse_if(options.command.empty() == !options.function, "a job runs either a command or a function");
  refuse_if(options.grace < milliseconds(0), "the grace must not be negative");
  refuse_if(options.max_restarts < 0, "the number of restarts must not be negative");
  refuse_if(is_no_port(hosts.master_port), "the master port must be from 0 to 65535");
  refuse_if(hosts.nnodes < 1 || hosts.nnodes > most_ranks / options.ranks,
            fmt::format("the number of nodes must be at least 1, and of ranks at most {} in all, not {} nodes with {} ranks", most_ranks,
                        hosts.nnodes, options.ranks));
  refuse_if(hosts.node_rank < 0 || hosts.node_rank >= hosts.nnodes,
            fmt::format("the node rank must be from 0 to {}, not {}", hosts.nnodes - 1, hosts.node_rank));
  const bool has_store = !hosts.store.empty();
  refuse_if(has_store && hosts.nnodes == 1, "several hosts meet in a store, and --nnodes does not say how many");
  refuse_if(has_store && !hosts.master_addr.empty(), "the hosts meet in the store or at an address, not both: --store, --master-addr");
  refuse_if(!has_store && hosts.nnodes > 1 && !options.command.empty() && hosts.master_addr.empty(),
            "a job of several hosts needs the address of the first one, where they meet: --master-addr; or --store");
  if (hosts.nnodes == 1) check_stdin(options, options.ranks);
  refuse_if(is_no_port(options.shown.metrics_port.value_or(0)), "the port of the metrics must be from 0 to 65535");
  refuse_if(hosts.silence <= milliseconds(0), "the time of silence must be positive");
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

/// Those who look at a job while it runs: the server of metrics and the status line, as far as they were asked for, and in a job of several hosts
/// what `unisono status` asks. None of them asks the ranks anything.
class Observers {
 public:
  /// Says where the metrics are. Throws StartFailed if their port is in use. `job`: the identity of the job on this host.
  Observers(const JobOptions& options, const std::string& job, Console& console, Hosts& hosts) {
    if (options.function) return;
    view_ = std::make_shared<JobView>(job, options.hosts.node_rank, hosts.terms().world_size);
    const auto look = [view = view_] { return view->look(); };
    hosts.answer_for_states(look);
    if (hosts.are_several() || options.shown.has_conductor()) {
      state_server_.emplace([look, &hosts] {
        std::vector<JobSeen> all = hosts.states_of_others();
        all.push_back(look());
        std::ranges::sort(all, {}, &JobSeen::node);
        return all;
      });
    }
    if (shows_status_line(options)) status_line_.emplace(console, look);
    if (!options.shown.metrics_port) return;
    const auto metrics = std::make_shared<Metrics>(look);
    server_.emplace(static_cast<std::uint16_t>(*options.shown.metrics_port),
                    HttpServer::Page{"/metrics", [metrics](std::string_view accept) {
                                       const MetricsFormat format = metrics_format(accept);
                                       return HttpServer::Content{media_type(format), metrics->text(format)};
                                     }});
    const std::string host = options.hosts.nnodes > 1 ? " on " + base::host_name() : "";
    console.say(fmt::format("metrics: http://127.0.0.1:{}/metrics{}", server_->port(), host), Topic::metrics);
  }

  /// Null if the ranks run a function: its children would have the descriptors of the others' records.
  JobView* view() { return view_.get(); }
  /// Null if none is shown.
  StatusLine* status_line() { return status_line_ ? &*status_line_ : nullptr; }

 private:
  std::shared_ptr<JobView> view_;  ///< the thread that answers other hosts lasts longer than this object
  std::optional<StatusLine> status_line_;
  std::optional<HttpServer> server_;
  std::optional<StateServer> state_server_;
};

bool asks_to_end(int signal) { return std::ranges::find(ending_signals, signal) != ending_signals.end(); }

/// A round of waiting outside of an attempt: for the console, for signals, and for what `more` adds. Returns the signals that have come.
std::vector<int> wait_round(
    Console& console, SignalScope* signals, const std::function<void(PollSet&)>& more = [](PollSet&) {}) {
  PollSet set;
  console.wait_for(set);
  if (signals != nullptr) set.add(signals->fd(), POLLIN, [](short) {});
  more(set);
  set.wait();
  console.flush();
  std::vector<int> all;
  while (const auto signal = signals != nullptr ? signals->next() : std::nullopt) all.push_back(*signal);
  return all;
}

/// Waits before a restart. Returns a signal that arrives meanwhile; it forbids the restart.
std::optional<int> wait_for_restart(milliseconds time, SignalScope* signals, Console& console) {
  const base::Deadline deadline(time);
  while (!deadline.passed()) {
    for (const int signal : wait_round(console, signals, [&](PollSet& set) { set.wake_at(deadline); })) {
      if (asks_to_end(signal)) return signal;
      if (signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
    }
  }
  return std::nullopt;
}

bool is_kind(const std::optional<Trouble>& trouble, Trouble::Kind kind) { return trouble && trouble->kind == kind; }

/// Waits for the other hosts' ranks to end, and takes their reports. A first signal is passed on to the others, a second one ends the wait. Returns
/// false if it ends the wait, or takes this host alone out of the job.
bool await_others(const JobParts& parts, JobResult& result, AttemptEnd& ended) {
  Hosts& hosts = parts.hosts;
  while (!hosts.all_ended()) {
    for (const int signal : wait_round(parts.console, parts.signals, [&](PollSet& set) { hosts.wait_for(set, [&] { hosts.take_trouble(); }); })) {
      if (!asks_to_end(signal)) continue;
      const bool gives_up = std::exchange(result.interrupted_by, signal).has_value();
      ended.leaves = !gives_up && hosts.is_left_by(signal);
      if (ended.leaves) {
        parts.console.say(signal_name(signal) + ": this host leaves the job; its ranks have ended before", Topic::interrupt);
        return false;
      }
      hosts.tell({.kind = Trouble::Kind::interrupt, .signal = signal});
      parts.console.say(
          signal_name(signal) + (gives_up ? " again: not waiting for the other hosts" : ": the other hosts are told to end their ranks"),
          Topic::interrupt);
      if (gives_up) return false;
    }
  }
  return true;
}

/// Puts together how the ranks of all hosts have ended. Returns the trouble of the attempt, if there was any.
std::optional<Trouble> put_together(const JobParts& parts, JobResult& result, AttemptEnd& ended) {
  Hosts& hosts = parts.hosts;
  if (!hosts.are_several() || ended.leaves) return std::nullopt;
  hosts.end(result.ends);
  const bool is_complete = await_others(parts, result, ended);
  if (ended.leaves) return std::nullopt;
  const auto trouble = hosts.first_trouble();
  auto ends = hosts.ends();  // none if host 0 is lost
  if (is_complete && (!ends.empty() || is_kind(trouble, Trouble::Kind::lost))) {
    if (!ends.empty()) result.ends = std::move(ends);
    result.first_cause = first_cause_of_hosts(result.ends, hosts.terms().least_ranks, trouble);
  }
  result.replacements = hosts.replacements();
  ended.interrupted_first = is_kind(trouble, Trouble::Kind::interrupt);
  if (ended.interrupted_first) result.interrupted_by = trouble->signal;
  return trouble;
}

/// Tells whether the launchers of the hosts, and no rank, are why the job has ended; says so then.
bool is_caused_by_launchers(const JobParts& parts, JobResult& result, const std::optional<Trouble>& trouble) {
  const bool is_explained =
      result.first_cause && !is_consequence(result.ends[*result.first_cause]) && !is_only_named(result.ends[*result.first_cause]);
  const bool is_lost = is_kind(trouble, Trouble::Kind::lost) && !is_explained;
  if (!is_lost && !is_kind(trouble, Trouble::Kind::displaced)) return false;
  parts.console.say(
      "first cause: " + (is_lost ? fmt::format("the launcher at {} is lost: {}", parts.hosts.name_of(trouble->node), trouble->how) : trouble->how),
      Topic::lost);
  result.exit_code = 1;
  return true;
}

/// Says why the job has failed. If a conductor shows the messages of all hosts, only the host of the first cause does so: it has the rank's last
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
  AttemptEnd ended = attempt.run();
  result.replacements += ended.replacements;
  result.ends = std::move(ended.ends);
  add_waits(result.ends, ended.records);
  result.first_cause = ended.cause;
  result.interrupted_by = ended.interrupted_by;
  const auto trouble = put_together(parts, result, ended);
  const auto end_by_signal = [&result] {
    result.exit_code = exit_signaled + *result.interrupted_by;
    return false;
  };
  if (ended.leaves) return end_by_signal();
  if (is_caused_by_launchers(parts, result, trouble)) return false;
  result.exit_code = result.first_cause ? exit_code_of_job(result.ends, *result.first_cause) : 0;
  if (result.interrupted_by && ended.interrupted_first) return end_by_signal();
  if (!result.first_cause) return false;
  account_for_failure(parts, attempt, result);
  const int restarts_left = max_restarts - (result.attempts - 1) - result.replacements;
  if (result.interrupted_by && restarts_left > 0) parts.hosts.give_up_restart(result.attempts, *result.interrupted_by);
  if (result.interrupted_by || is_kind(trouble, Trouble::Kind::lost) || restarts_left <= 0 || parts.terms().is_open) return false;
  const milliseconds pause = back_off(result.attempts);
  parts.console.say(fmt::format("restart {} of {} in {} s", result.attempts + result.replacements, max_restarts, pause.count() / 1000),
                    Topic::restart);
  if (const auto signal = wait_for_restart(pause, parts.signals, parts.console)) {
    parts.hosts.give_up_restart(result.attempts, *signal);
    result.interrupted_by = signal;
    return end_by_signal();
  }
  return true;
}

}  // namespace

void write_out(Console& console, SignalScope* signals) {
  console.flush();
  while (!console.is_empty()) {
    for (const int signal : wait_round(console, signals)) {
      if (signal != SIGCONT && signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGWINCH) return;
    }
  }
}

JobResult run_job(const JobOptions& given) {
  check(given);
  JobOptions options = given;
  open_standard_descriptors();
  Task task{.arguments = options.command, .function = options.function};
  if (task.function) task.program_descriptors = open_descriptors();
  else task.path = find_program(options.command.front(), options.environment);
  const HostParts parts_of_binding = parts_of_host(options.binding);  // before the hosts meet: others would wait for one that cannot tell
  const DescriptorLimit limit(64 + 9 * static_cast<std::size_t>(options.ranks) + allowed_cpus().size());  // a core that is held takes one
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
  const Placement placement = place_on_this_host(options, task.path, parts_of_binding);
  check_stdin(options, hosts->terms().world_size);
  Observers observers(options, job_id, console, *hosts);
  if (!logs.path.empty()) console.say("logs: " + logs.path, Topic::logs);
  if (!logs.warning.empty()) console.say("warning: " + logs.warning);
  console.flush();
  const JobParts parts{options,
                       task,
                       job_id,
                       placement,
                       watchdog,
                       console,
                       stdin_pump,
                       signal_scope,
                       *hosts,
                       logs.path,
                       limit.original(),
                       observers.view(),
                       observers.status_line()};

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

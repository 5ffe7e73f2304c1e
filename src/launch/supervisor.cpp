#include "launch/supervisor.h"

#include <fmt/format.h>

#include <algorithm>

#include "ground/deadline.h"
#include "ground/log.h"
#include "ground/processors.h"
#include "launch/attempt.h"
#include "launch/report.h"

namespace unisono::launcher {

using std::chrono::milliseconds;

namespace {

constexpr int most_ranks = 1 << 16;

void check(const JobOptions& options) {
  if (options.ranks < 1 || options.ranks > most_ranks) {
    throw InvalidArgument(fmt::format("the number of ranks must be from 1 to {}, not {}", most_ranks, options.ranks));
  }
  if (options.command.empty() == !options.function) throw InvalidArgument("a job runs either a command or a function");
  if (options.grace < milliseconds(0)) throw InvalidArgument("the grace must not be negative");
  if (options.max_restarts < 0) throw InvalidArgument("the number of restarts must not be negative");
  if (options.master_port < 0 || options.master_port > 65535) throw InvalidArgument("the master port must be from 0 to 65535");
  if (options.nnodes < 1 || options.nnodes > most_ranks / options.ranks) {
    throw InvalidArgument(fmt::format("the number of nodes must be at least 1, and of ranks at most {} in all, not {} nodes with {} ranks",
                                      most_ranks, options.nnodes, options.ranks));
  }
  if (options.node_rank < 0 || options.node_rank >= options.nnodes) {
    throw InvalidArgument(fmt::format("the node rank must be from 0 to {}, not {}", options.nnodes - 1, options.node_rank));
  }
  if (options.nnodes > 1 && !options.command.empty() && (options.master_addr.empty() || options.master_port == 0)) {
    throw InvalidArgument("ranks of several nodes need the address and the port at which they meet rank 0");
  }
  if (options.nnodes > 1 && options.max_restarts > 0) throw InvalidArgument("a job of several nodes cannot be restarted by one of their launchers");
}

std::vector<int> handled_signals(const JobOptions& options) {
  std::vector<int> signals{SIGINT, SIGTERM, SIGQUIT, SIGTSTP, SIGCONT};
  if (!is_ignored(SIGHUP)) signals.push_back(SIGHUP);  // nohup asks us to go on when the terminal goes
  signals.insert(signals.end(), options.forwarded_signals.begin(), options.forwarded_signals.end());
  return signals;
}

void say_what_was_chosen(const JobOptions& options, Console& console) {
  const int cores = ground::allowed_processors();
  // A function runs in a process that has read its environment long ago: nothing is set for it.
  if (!options.function && !options.environment.has("OMP_NUM_THREADS") && ground::log_level() <= ground::LogLevel::warning) {
    console.say(fmt::format("OMP_NUM_THREADS={} for each rank ({} cores, {} ranks); set it to choose otherwise", openmp_share(options.ranks), cores,
                            options.ranks));
  }
  if (options.ranks > cores) ground::info(fmt::format("{} ranks share {} cores", options.ranks, cores));
}

/// 1, 2, 4, … seconds before restart 1, 2, 3, …
milliseconds back_off(int restart) { return std::chrono::seconds(1 << std::min(restart - 1, 5)); }

/// Waits before a restart; the signal that forbids it, if one comes.
std::optional<int> wait_for_restart(milliseconds time, SignalScope* signals, Console& console) {
  const ground::Deadline deadline(time);
  const std::array ending{SIGINT, SIGTERM, SIGQUIT, SIGHUP};
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
      if (std::find(ending.begin(), ending.end(), *signal) != ending.end()) return signal;
      if (*signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
    }
  }
  return std::nullopt;
}

/// Until the reader has taken everything; a further Ctrl-C gives up on him.
void write_out(Console& console, SignalScope* signals) {
  console.flush();
  while (!console.is_empty()) {
    bool give_up = false;
    PollSet set;
    console.wait_for(set);
    if (signals != nullptr) {
      set.add(signals->fd(), POLLIN, [&](short) {
        while (const auto signal = signals->next()) give_up = give_up || (*signal != SIGCONT && *signal != SIGUSR1 && *signal != SIGUSR2);
      });
    }
    set.wait();
    if (give_up) return;
    console.flush();
  }
}

}  // namespace

JobResult run_job(const JobOptions& options) {
  check(options);
  open_standard_descriptors();
  Task task{.arguments = options.command, .function = options.function};
  if (!task.function) task.path = find_program(options.command.front(), options.environment);
  if (!options.log_directory.empty()) make_log_directory(options.log_directory);

  const DescriptorLimit limit(64 + 8 * static_cast<std::size_t>(options.ranks));
  const std::vector<int> cpus = allowed_cpus();
  const std::string job_id = random_id();
  const Watchdog watchdog(job_id);
  const KeptChildren kept_children;
  std::optional<SignalScope> signals;
  if (options.signals == SignalMode::handled) signals.emplace(handled_signals(options));
  SignalScope* const signal_scope = signals ? &*signals : nullptr;
  Console console(options.environment, options.talk);
  StdinPump stdin_pump;
  say_what_was_chosen(options, console);
  console.flush();
  const JobParts parts{options, task, job_id, cpus, watchdog, console, stdin_pump, signal_scope, limit.original()};

  JobResult result;
  while (true) {
    const int restarts_left = options.max_restarts - result.attempts;
    Attempt attempt(parts, result.attempts++);
    attempt.run(restarts_left > 0);
    result.ends = attempt.ends();
    result.first_cause = attempt.cause();
    result.interrupted_by = attempt.interrupted_by();
    result.exit_code = result.first_cause ? result.ends[*result.first_cause].exit_code() : 0;
    if (result.interrupted_by && attempt.interrupted_first()) {
      result.exit_code = 128 + *result.interrupted_by;
      break;
    }
    if (!result.first_cause) break;
    const auto& errors = attempt.output().tail_of_error(*result.first_cause);
    report_failure(console, result.ends, *result.first_cause, errors.empty() ? attempt.output().tail_of_output(*result.first_cause) : errors);
    if (result.interrupted_by || restarts_left <= 0) break;
    const milliseconds pause = back_off(result.attempts);
    console.say(fmt::format("restart {} of {} in {} s", result.attempts, options.max_restarts, pause.count() / 1000));
    if (const auto signal = wait_for_restart(pause, signal_scope, console)) {
      result.interrupted_by = signal;
      result.exit_code = 128 + *signal;
      break;
    }
  }
  write_out(console, signal_scope);
  return result;
}

}  // namespace unisono::launcher

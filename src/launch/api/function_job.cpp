#include "launch/api/function_job.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <utility>

#include "engines/registry.h"
#include "context/foreign.h"
#include "base/environment.h"
#include "base/error_text.h"
#include "base/socket.h"
#include "context/state.h"
#include "group/group.h"
#include "launch/job/supervisor.h"
#include "launch/process/host.h"
#include "rendezvous/identity.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/plan.h"
#include "unisono/detail/ending.h"

namespace unisono::launcher {
namespace {

using base::Environment;
using detail::Bytes;

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) { throw InvalidArgument(what, {.operation = "spawn", .hint = hint}); }

void check_numbers(const SpawnOptions& options) {
  if (options.nproc_per_node < 1) refuse(fmt::format("nproc_per_node must be at least 1, not {}", options.nproc_per_node));
  if (options.nnodes < 1) refuse(fmt::format("nnodes must be at least 1, not {}", options.nnodes));
  if (options.node_rank < 0 || options.node_rank >= options.nnodes) {
    refuse(fmt::format("node_rank must be from 0 to {}, not {}", options.nnodes - 1, options.node_rank));
  }
  if (options.nproc_per_node > most_ranks / options.nnodes) {
    refuse(fmt::format("a job has at most {} processes, not {} nodes with {} each", most_ranks, options.nnodes, options.nproc_per_node));
  }
  if (options.master_port < 0 || options.master_port > highest_port)
    refuse(fmt::format("master_port must be from 1 to 65535, not {}", options.master_port));
  if (options.timeout.count() <= 0) refuse("the timeout must be positive");
}

void check_backend(const SpawnOptions& options) {
  const std::string name = engines::host_backend(options.backend);
  if (name == "mpi") {
    throw Unsupported("processes that spawn starts are not an MPI world: each would be rank 0 of one",
                      {.operation = "spawn", .hint = "start the program with mpirun, and call initialize(\"mpi\")"});
  }
  if (name != "auto") engines::maker(name);  // throws where it cannot run here
  const int world_size = options.nnodes * options.nproc_per_node;
  if (name == "serial" && world_size > 1) refuse(fmt::format("backend serial is for one process, and {} are asked for", world_size));
}

/// Returns where the ranks meet; empty if they meet through the launcher.
std::string meeting_place(const SpawnOptions& options) {
  const bool named = context::has_handler(options.init_method) ||
                     (!options.init_method.empty() && rendezvous::parse_url(options.init_method).scheme != rendezvous::Url::Scheme::env);
  if (named) {
    if (!options.master_addr.empty()) refuse(fmt::format("master_addr is given, and init_method \"{}\" says where to meet", options.init_method));
    if (options.master_port != 0) refuse(fmt::format("master_port is given, and init_method \"{}\" says where to meet", options.init_method));
    return options.init_method;
  }
  const bool one_node = options.nnodes == 1;
  if (one_node && options.master_port == 0) {
    if (options.master_addr.empty()) return {};
    refuse(fmt::format("master_addr {} is given without master_port", options.master_addr), "one node needs neither");
  }
  const Environment& environment = Environment::process();
  std::string host = options.master_addr.empty() ? environment.get("MASTER_ADDR").value_or("") : options.master_addr;
  if (one_node && options.master_addr.empty()) host = "127.0.0.1";
  const int port = options.master_port == 0 ? environment.get_int("MASTER_PORT").value_or(0) : options.master_port;
  if (host.empty() || port == 0) {
    refuse(
        fmt::format("processes of {} nodes need a place to meet, and {} is not given", options.nnodes, host.empty() ? "master_addr" : "master_port"),
        "give master_addr and master_port, set MASTER_ADDR and MASTER_PORT, or give init_method");
  }
  const bool is_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  std::string place = fmt::format("tcp://{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
  rendezvous::parse_url(place);  // throws with the reason where it is malformed
  return place;
}

InitOptions init_options(const SpawnOptions& options, const std::string& place, int local_rank) {
  InitOptions init;
  init.backend = options.backend;
  init.timeout = options.timeout;
  if (place.empty()) return init;
  init.init_method = place;
  init.world_size = options.nnodes * options.nproc_per_node;
  init.rank = options.node_rank * options.nproc_per_node + local_rank;
  init.local_rank = local_rank;
  return init;
}

/// Connects a rank to the launcher's store for its status, where the ranks do not meet through that store.
void listen_to(const Environment& environment, std::chrono::milliseconds timeout) {
  context::State& state = *context::initialized();
  if (state.launcher.store()) return;
  state.launcher.connect(rendezvous::launcher_store(environment, base::Deadline(timeout)));
  state.launcher.tell("initialized");
}

/// Runs in the process of a rank, from its beginning to its end.
int run_rank(const InitOptions& init, int local_rank, const Body& body, Outcome& outcome) {
  try {
    Bytes result;
    {
      const Context context(init);
      listen_to(Environment::process(), init.timeout);
      try {
        result = body(local_rank);
      } catch (...) {
        const auto thrown = Thrown::describe(std::current_exception());
        detail::give_up("gave up: " + thrown.text(), thrown.blamed);
        throw;
      }
    }
    outcome.put_result(result);
    return 0;
  } catch (...) {
    outcome.put_error(Thrown::describe(std::current_exception()));
    return 1;
  }
}

/// Returns where a function lies in its file, since the address of the file differs between processes of one program.
std::string place_of(void (*function)()) {
  Dl_info file{};
  if (::dladdr(reinterpret_cast<const void*>(function), &file) == 0) return {};
  return fmt::format(" at {:#x}", reinterpret_cast<std::uintptr_t>(function) - reinterpret_cast<std::uintptr_t>(file.dli_fbase));
}

/// Returns the name by which a rank that runs the program again knows the call.
std::string name_of(const Body& body) {
  const auto* const rank_body = body.target<detail::RankBody>();
  if (rank_body == nullptr) return base::readable(body.target_type());
  return base::readable(*rank_body->type) + (rank_body->function == nullptr ? "" : place_of(rank_body->function));
}

/// The outcome of this process if it is a rank that runs the program again, and has not yet come to its call.
std::optional<Outcome>& own_outcome() {
  static auto& outcome = *new std::optional<Outcome>(Outcome::inherited());
  return outcome;
}

/// Does the work of a rank if this process is one that runs the program again, and does not return then.
void run_as_rank(const SpawnOptions& options, const std::string& place, const Body& body) {
  if (!own_outcome()) return;
  auto outcome = std::exchange(own_outcome(), std::nullopt);  // a job within this one would be nested
  const int local_rank = Environment::process().get_int("LOCAL_RANK").value();
  int code = 1;
  if (outcome->expected() == name_of(body)) {
    code = run_rank(init_options(options, place, local_rank), local_rank, body, *outcome);
  } else {
    outcome->put_error({.type = "InvalidArgument",
                        .message = "with start_method exec the program comes to the same call in every process, and this one has come to another one "
                                   "first: what the program does before the call must not depend on the rank"});
  }
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): as at the end of main
}

/// Counts the calls of this process that start others.
std::atomic<int> jobs_before = 0;

}  // namespace

bool runs_program_again() { return own_outcome().has_value(); }

void check_not_within_a_job(const char* operation) {
  if (group::in_forked_child()) {
    throw NotInitialized("this process was forked from one that is initialized; it has no part in the job", {.operation = operation});
  }
  if (group::is_guarded_against_fork()) {
    throw AlreadyInitialized("nested use: this process is part of a job already, and its threads would be missing in forked ones",
                             {.operation = operation, .hint = "call it before initialize or after finalize, and not inside run_threads"});
  }
  const Environment& environment = Environment::process();
  if (rendezvous::launched_as_many(environment)) {
    const auto identity = rendezvous::identity_from_environment(environment);
    throw InvalidArgument(fmt::format("nested use: this process was started by {} as one of {}, and each of them would start a job of its own",
                                      to_string(identity.launcher), identity.world_size->value),
                          {.operation = operation, .hint = "start the program without a launcher, or call initialize instead"});
  }
}

FunctionJob::FunctionJob(const SpawnOptions& options, const Body& body) : options_(options) {
  check_numbers(options_);
  place_ = meeting_place(options_);
  check_backend(options_);
  run_as_rank(options_, place_, body);
  check_not_within_a_job("spawn");
  const bool is_first = jobs_before.fetch_add(1) == 0;
  if (options_.start_method == StartMethod::exec) {
    if (!is_first) {
      refuse("with start_method exec a process runs the program from its beginning, and would come to an earlier call first that starts processes",
             "start all of them by one call, or use StartMethod::fork");
    }
    program_.emplace();
  }
  open_standard_descriptors();  // otherwise a rank's result might become descriptor 1
  outcomes_ = std::vector<Outcome>(static_cast<std::size_t>(options_.nproc_per_node));
  if (program_) {
    for (Outcome& outcome : outcomes_) outcome.expect(name_of(body));
  }
}

void FunctionJob::run(const Body& body, const std::function<void()>& started) {
  JobOptions job;
  job.ranks = options_.nproc_per_node;
  job.hosts.nnodes = options_.nnodes;
  job.hosts.node_rank = options_.node_rank;
  job.hosts.master_addr = options_.master_addr;
  job.hosts.master_port = options_.master_port != 0 ? options_.master_port : Environment::process().get_int("MASTER_PORT").value_or(0);
  job.shown.output = OutputMode::inherited;
  job.signals = SignalMode::left;
  job.shown.verbosity = Verbosity::silent;
  if (started) job.started = [&started](const Environment&, const std::vector<pid_t>&) { started(); };
  job.function = [this, &body](const Environment& environment) { return be_rank(environment, body); };
  result_ = run_job(job);
}

std::vector<Bytes> FunctionJob::take_results() {
  throw_if_failed(result_, outcomes_);
  std::vector<Bytes> results;
  results.reserve(outcomes_.size());
  for (auto& outcome : outcomes_) results.push_back(outcome.take_result());
  return results;
}

int FunctionJob::be_rank(const Environment& environment, const Body& body) {
  const int local_rank = environment.get_int("LOCAL_RANK").value();
  for (int other = 0; other < options_.nproc_per_node; ++other) {
    if (other != local_rank) outcomes_[static_cast<std::size_t>(other)].close();
  }
  Outcome& outcome = outcomes_[static_cast<std::size_t>(local_rank)];
  if (program_) {
    outcome.pass_on();
    const int error = program_->run(environment);
    outcome.put_error({.type = "LaunchFailed", .message = "the program cannot be run again: " + base::error_text(error)});
    return 1;
  }
  Environment::become(environment);
  return run_rank(init_options(options_, place_, local_rank), local_rank, body, outcome);
}

}  // namespace unisono::launcher

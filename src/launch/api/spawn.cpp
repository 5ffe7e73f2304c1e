// Starts processes from within a program: a job of functions.

#include <fmt/format.h>

#include <exception>

#include "engines/registry.h"
#include "context/foreign.h"
#include "base/environment.h"
#include "context/state.h"
#include "group/group.h"
#include "launch/api/outcome.h"
#include "launch/job/supervisor.h"
#include "launch/process/host.h"
#include "rendezvous/identity.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/plan.h"
#include "unisono/detail/ending.h"
#include "unisono/launch.h"

namespace unisono {
namespace {

using base::Environment;

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) { throw InvalidArgument(what, {.operation = "spawn", .hint = hint}); }

void check_numbers(const SpawnOptions& options) {
  if (options.nproc_per_node < 1) refuse(fmt::format("nproc_per_node must be at least 1, not {}", options.nproc_per_node));
  if (options.nnodes < 1) refuse(fmt::format("nnodes must be at least 1, not {}", options.nnodes));
  if (options.node_rank < 0 || options.node_rank >= options.nnodes) {
    refuse(fmt::format("node_rank must be from 0 to {}, not {}", options.nnodes - 1, options.node_rank));
  }
  if (options.nproc_per_node > launcher::most_ranks / options.nnodes) {
    refuse(fmt::format("a job has at most {} processes, not {} nodes with {} each", launcher::most_ranks, options.nnodes, options.nproc_per_node));
  }
  if (options.master_port < 0 || options.master_port > launcher::highest_port)
    refuse(fmt::format("master_port must be from 1 to 65535, not {}", options.master_port));
  if (options.timeout.count() <= 0) refuse("the timeout must be positive");
}

void check_backend(const SpawnOptions& options) {
  const std::string name = engines::host_backend(options.backend);
  if (name == "mpi") {
    throw Unsupported("processes that spawn starts are no MPI world: each would be rank 0 of one",
                      {.operation = "spawn", .hint = "start the program with mpirun, and call initialize(\"mpi\")"});
  }
  if (name != "auto") engines::maker(name);  // throws where it cannot run here
  const int world_size = options.nnodes * options.nproc_per_node;
  if (name == "serial" && world_size > 1) refuse(fmt::format("backend serial is for one process, and {} are asked for", world_size));
}

/// The processes of a job within a job would take part in both.
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

/// Runs in the forked process, from its beginning to its end.
int run_rank(const InitOptions& init, const Environment& environment, int local_rank, const std::function<detail::Bytes(int)>& body,
             launcher::Outcome& outcome) {
  Environment::become(environment);
  try {
    detail::Bytes result;
    {
      const Context context(init);
      listen_to(environment, init.timeout);
      try {
        result = body(local_rank);
      } catch (...) {
        const auto thrown = launcher::Thrown::describe(std::current_exception());
        detail::give_up("gave up: " + thrown.text(), thrown.blamed);
        throw;
      }
    }
    outcome.put_result(result);
    return 0;
  } catch (...) {
    outcome.put_error(launcher::Thrown::describe(std::current_exception()));
    return 1;
  }
}

}  // namespace

std::vector<detail::Bytes> detail::spawn(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body) {
  check_numbers(options);
  const std::string place = meeting_place(options);
  check_backend(options);
  check_not_within_a_job("spawn");

  launcher::open_standard_descriptors();  // otherwise a rank's result might become descriptor 1
  std::vector<launcher::Outcome> outcomes(static_cast<std::size_t>(options.nproc_per_node));
  launcher::JobOptions job;
  job.ranks = options.nproc_per_node;
  job.hosts.nnodes = options.nnodes;
  job.hosts.node_rank = options.node_rank;
  job.hosts.master_addr = options.master_addr;
  job.hosts.master_port = options.master_port != 0 ? options.master_port : Environment::process().get_int("MASTER_PORT").value_or(0);
  job.shown.output = launcher::OutputMode::inherited;
  job.signals = launcher::SignalMode::left;
  job.shown.verbosity = launcher::Verbosity::silent;
  job.function = [&](const Environment& environment) {
    const int local_rank = *environment.get_int("LOCAL_RANK");
    for (int other = 0; other < options.nproc_per_node; ++other) {
      if (other != local_rank) outcomes[static_cast<std::size_t>(other)].close();
    }
    return run_rank(init_options(options, place, local_rank), environment, local_rank, body, outcomes[static_cast<std::size_t>(local_rank)]);
  };
  const launcher::JobResult result = launcher::run_job(job);
  launcher::throw_if_failed(result, outcomes);
  std::vector<Bytes> results;
  results.reserve(outcomes.size());
  for (auto& outcome : outcomes) results.push_back(outcome.take_result());
  return results;
}

SpawnOptions detail::spawn_options(int num_machines, int num_gpus_per_machine, int machine_rank, std::string dist_url) {
  const auto refuse = [](const std::string& what) { throw InvalidArgument(what, {.operation = "launch"}); };
  if (num_machines < 1) refuse(fmt::format("num_machines must be at least 1, not {}", num_machines));
  if (num_gpus_per_machine < 1) refuse(fmt::format("num_gpus_per_machine must be at least 1, not {}", num_gpus_per_machine));
  if (machine_rank < 0 || machine_rank >= num_machines) {
    refuse(fmt::format("machine_rank must be from 0 to {}, not {}", num_machines - 1, machine_rank));
  }
  if (dist_url.empty() && num_machines > 1) refuse(fmt::format("{} machines need a dist_url at which they meet", num_machines));
  if (!dist_url.empty()) rendezvous::parse_url(dist_url);
  check_not_within_a_job("launch");
  return {.nproc_per_node = num_gpus_per_machine, .nnodes = num_machines, .node_rank = machine_rank, .init_method = std::move(dist_url)};
}

InitOptions detail::world_of_one() { return {.rank = 0, .world_size = 1, .store = std::make_shared<MemoryStore>()}; }

}  // namespace unisono

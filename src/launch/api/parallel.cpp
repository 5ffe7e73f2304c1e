#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <utility>

#include "base/environment.h"
#include "base/error_text.h"
#include "base/log.h"
#include "engines/registry.h"
#include "launch/api/function_job.h"
#include "unisono/detail/ending.h"
#include "unisono/launch.h"

namespace unisono {
namespace {

[[noreturn]] void wrong(const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(what, {.operation = "Parallel", .hint = hint});
}

/// Writes once, so that lines of several processes stay whole.
void say(const std::string& text) { std::clog << "[unisono] " + text + "\n" << std::flush; }

/// Returns every given option that concerns processes to be started, with its value.
std::vector<std::pair<std::string, std::string>> given(const ParallelOptions& options) {
  std::vector<std::pair<std::string, std::string>> list;
  const auto add = [&](const char* name, const auto& option) {
    if (option) list.emplace_back(name, fmt::format("{}", *option));
  };
  add("nproc_per_node", options.nproc_per_node);
  add("nnodes", options.nnodes);
  add("node_rank", options.node_rank);
  add("master_addr", options.master_addr);
  add("master_port", options.master_port);
  if (options.start_method) list.emplace_back("start_method", *options.start_method == StartMethod::exec ? "exec" : "fork");
  if (options.join) list.emplace_back("join", *options.join ? "true" : "false");
  return list;
}

SpawnOptions spawn_options(const ParallelOptions& options) {
  const int nnodes = options.nnodes.value_or(1);
  if (*options.nproc_per_node < 1) wrong(fmt::format("nproc_per_node must be positive, not {}", *options.nproc_per_node));
  if (nnodes < 1) wrong(fmt::format("nnodes must be positive, not {}", nnodes));
  if (nnodes > 1 && !options.node_rank) wrong(fmt::format("with {} nodes, node_rank must be given", nnodes));
  const int node_rank = options.node_rank.value_or(0);
  if (node_rank < 0 || node_rank >= nnodes) wrong(fmt::format("node_rank must be from 0 to {}, not {}", nnodes - 1, node_rank));
  const auto& environment = base::Environment::process();
  const bool has_address = options.master_addr || environment.has("MASTER_ADDR");
  const bool has_port = options.master_port || environment.has("MASTER_PORT");
  if (nnodes > 1 && !(has_address && has_port) && !options.init_method) {
    wrong(fmt::format("with {} nodes, master_addr and master_port must be given, or init_method; given are {} and {}", nnodes,
                      options.master_addr.value_or("no master_addr"),
                      options.master_port ? fmt::format("port {}", *options.master_port) : "no port"));
  }
  return {.backend = *options.backend,
          .nproc_per_node = *options.nproc_per_node,
          .nnodes = nnodes,
          .node_rank = node_rank,
          .master_addr = options.master_addr.value_or(""),
          .master_port = options.master_port.value_or(0),
          .init_method = options.init_method.value_or(""),
          .timeout = options.timeout,
          .start_method = options.start_method.value_or(StartMethod::fork)};
}

}  // namespace

struct Parallel::State {
  std::optional<std::string> backend;
  std::optional<SpawnOptions> processes;
  bool joins = true;
  std::vector<detail::Processes> running;  // which run has not joined
  std::optional<Context> context;          // initialized by the object
  bool speaks = false;                     // true on rank 0
};

Parallel::Parallel(const ParallelOptions& options) : state_(std::make_unique<State>()) {
  const auto about_processes = given(options);
  state_->backend = options.backend;
  if (!options.backend) {
    for (const auto& [name, value] : about_processes) wrong(fmt::format("{} is {}, and without a backend nothing is started", name, value));
    if (options.init_method) base::warn("Parallel: init_method is given without a backend, so nobody is met there");
    state_->speaks = rank() == 0;
    return;
  }
  engines::host_backend(*options.backend);  // throws for an unknown name
  if (options.nproc_per_node) {
    state_->processes = spawn_options(options);
    state_->joins = options.join.value_or(true);
    state_->speaks = state_->processes->node_rank == 0 && !launcher::runs_program_again();
    if (!state_->speaks) return;
    std::string list;
    for (const auto& [name, value] : about_processes) list += fmt::format("\n\t{}: {}", name, value);
    say(fmt::format("Prepared to start processes with backend: '{}'", *options.backend));
    say(fmt::format("Parameters of the processes:{}", list));
    return;
  }
  for (const auto& [name, value] : about_processes) {
    base::warn(fmt::format("Parallel: {} is {}, but without nproc_per_node no processes are started; it has no effect", name, value));
  }
  InitOptions init;
  init.backend = *options.backend;
  init.init_method = options.init_method.value_or(init.init_method);
  init.timeout = options.timeout;
  state_->context.emplace(init);
  state_->speaks = rank() == 0;
  if (state_->speaks) say(fmt::format("Initialized the process group with backend: '{}'", *options.backend));
}

Parallel::~Parallel() {
  try {
    join();
  } catch (const std::exception& error) {
    base::warn(std::string("Parallel: the processes that nobody has joined have failed: ") + error.what());
  }
  if (!state_->context) return;
  state_->context.reset();
  if (state_->speaks) say(fmt::format("Finalized the process group with backend: '{}'", *state_->backend));
}

bool Parallel::start(const std::function<detail::Bytes(int local_rank)>& body, std::vector<detail::Bytes>& parts) {
  if (!state_->processes) return false;
  if (state_->joins) parts = detail::spawn(*state_->processes, body);
  else state_->running.emplace_back(*state_->processes, body);
  return true;
}

void Parallel::join() {
  if (state_->running.empty()) return;
  std::exception_ptr first;
  for (detail::Processes& processes : std::exchange(state_->running, {})) {
    try {
      processes.join();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  if (state_->speaks) say("End of run");
}

void Parallel::within(const std::type_info& function, const std::function<void()>& body) {
  if (state_->speaks) {
    const int n = state_->processes ? state_->processes->nproc_per_node : world_size();
    say(fmt::format("{} '{}' in {} processes", state_->processes ? "Start" : "Run", base::readable(function), n));
  }
  try {
    body();
  } catch (...) {
    // The other ranks may wait in a call that this rank will never make.
    if (state_->context) {
      const auto thrown = base::Thrown::describe(std::current_exception());
      detail::give_up("gave up: " + thrown.text(), thrown.blamed);
    }
    throw;
  }
  if (state_->speaks && state_->running.empty()) say("End of run");
}

}  // namespace unisono

#include "unisono/context.h"

#include <atomic>
#include <exception>
#include <iostream>
#include <mutex>

#include "backends/plugins.h"
#include "backends/registry.h"
#include "context/state.h"
#include "context/topology.h"
#include "ground/environment.h"
#include "ground/error_place.h"
#include "rendezvous/carried.h"
#include "rendezvous/identity.h"
#include "rendezvous/rendezvous.h"

namespace unisono {
namespace context {
namespace {

// Everything here lives until the process ends, in whatever order the rest of it is destroyed.
std::mutex& mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}
std::atomic<State*> of_process{nullptr};
thread_local State* thread_state = nullptr;
std::atomic<int> hint{-1};
std::vector<ContextProbe>& probes() {
  static auto& instance = *new std::vector<ContextProbe>;
  return instance;
}

[[noreturn]] void not_initialized() {
  if (group::in_forked_child()) {
    throw NotInitialized("this process was forked from one that is initialized; it has no part in the job",
                         {.hint = "start processes before initialize, or exec after fork"});
  }
  throw NotInitialized("this process was launched as one of several and has not called unisono::initialize",
                       {.hint = "call initialize first, or start the program without a launcher to run it alone"});
}

State& lone_state() {
  static State& instance = *alone().release();
  return instance;
}

void end(State* state, bool wait) {
  if (wait) leave(*state);
  else abandon(*state);
  group::guard_against_fork(false);
  delete state;
}

}  // namespace

State*& of_thread() { return thread_state; }

State* initialized() {
  if (thread_state != nullptr) return thread_state;
  return of_process.load(std::memory_order_acquire);
}

State& current() {
  if (group::in_forked_child()) not_initialized();
  if (State* state = initialized()) [[likely]]
    return *state;
  if (rendezvous::launched_as_many(ground::Environment::process())) not_initialized();
  return lone_state();
}

std::optional<int> local_rank_hint() {
  const int value = hint.load();
  return value < 0 ? std::nullopt : std::optional<int>(value);
}

static void install(const InitOptions& options, bool temporary) {
  const std::lock_guard lock(mutex());
  if (group::in_forked_child()) not_initialized();
  if (thread_state != nullptr || of_process.load() != nullptr) {
    throw AlreadyInitialized("this process is initialized already", {.operation = "initialize", .hint = "finalize comes before another initialize"});
  }
  rendezvous::set_carrier_source(backends::carrier);
  auto state = join(options);
  state->temporary = temporary;
  group::guard_against_fork(true);
  of_process.store(state.release(), std::memory_order_release);
}

}  // namespace context

void initialize(const InitOptions& options) { context::install(options, false); }

void finalize() {
  const std::lock_guard lock(context::mutex());
  if (group::in_forked_child() || context::thread_state != nullptr) return;  // the ranks of run_threads end with their function
  if (auto* state = context::of_process.exchange(nullptr)) context::end(state, true);
}

Context::Context() : Context(InitOptions{}) {}
Context::Context(const InitOptions& options) : exceptions_(std::uncaught_exceptions()) { initialize(options); }
Context::~Context() {
  if (group::in_forked_child()) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      if (context::State* state = context::initialized()) state->world->abort("an exception left the scope of its Context");
      const std::lock_guard lock(context::mutex());
      if (auto* state = context::of_process.exchange(nullptr)) context::end(state, false);
    } else {
      finalize();
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell; the peers notice a rank that left without a goodbye
  }
}

bool is_initialized() { return !group::in_forked_child() && context::initialized() != nullptr; }

ProcessGroup world() { return *context::current().world; }
const ProcessGroup& detail::current_world(std::source_location where) {
  return ground::with_place(where, []() -> const ProcessGroup& { return *context::current().world; });
}

int rank() { return context::current().rank; }
int world_size() { return context::current().world_size; }
int local_rank() { return context::current().local_rank; }
int nproc_per_node() { return context::current().topology.nproc_per_node; }
int nnodes() { return context::current().topology.nnodes; }
int node_rank() { return context::current().topology.node_rank; }
DistInfo dist_info() {
  const context::State& state = context::current();
  return {state.rank, state.world_size};
}
std::string hostname() { return context::host_name(); }
Device device() { return context::current().world->implementation()->device().value_or(Device{}); }

std::optional<std::string> backend() {
  const context::State& state = context::current();
  if (state.world_size == 1 && state.world->backend() == "serial") return std::nullopt;
  return state.world->backend();
}
std::string model_name() {
  const auto name = backend();
  return name ? *name + "-dist" : "serial";
}
std::vector<std::string> available_backends() { return backends::available(); }
bool is_backend_available(std::string_view name) { return backends::availability(name).available; }

void register_context_probe(ContextProbe probe) {
  const std::lock_guard lock(context::mutex());
  context::probes().push_back(std::move(probe));
}

void sync(bool temporary) {
  {
    // What the last call adopted for a while is looked for anew.
    const std::lock_guard lock(context::mutex());
    auto* state = context::of_process.load();
    if (state != nullptr && state->temporary) {
      context::of_process.store(nullptr);
      context::end(state, true);
    }
  }
  if (is_initialized()) return;
  std::vector<ContextProbe> probes;
  {
    const std::lock_guard lock(context::mutex());
    probes = context::probes();
  }
  for (const auto& probe : probes) {
    if (const auto options = probe()) return context::install(*options, temporary);
  }
  // A program that has joined its MPI is part of that job.
  const auto joined = backends::carrier(false);
  if (!joined || joined->size == 1) return;
  InitOptions options;
  options.rank = joined->rank;
  options.world_size = joined->size;
  context::install(options, temporary);
}

void set_local_rank(int index) {
  if (index < 0) throw InvalidArgument("a local rank is not negative: " + std::to_string(index), {.operation = "set_local_rank"});
  context::hint.store(index);
}

Launcher infer_launcher() { return rendezvous::infer_launcher(ground::Environment::process()); }

std::optional<int> launcher_local_rank() {
  const auto given = rendezvous::identity_from_environment(ground::Environment::process()).local_rank;
  return given ? std::optional(given->value) : std::nullopt;
}

bool is_torchelastic_launched() { return ground::Environment::process().has("TORCHELASTIC_RUN_ID"); }

void show_config(std::ostream& out) {
  const context::State& state = context::current();
  if (state.rank != 0) return;
  out << "distributed configuration: " << model_name() << '\n'
      << "backend: " << backend().value_or("none") << '\n'
      << "device: " << to_string(device()) << '\n'
      << "hostname: " << hostname() << '\n'
      << "world size: " << state.world_size << '\n'
      << "rank: " << state.rank << '\n'
      << "local rank: " << state.local_rank << '\n'
      << "processes per node: " << state.topology.nproc_per_node << '\n'
      << "nodes: " << state.topology.nnodes << '\n'
      << "node rank: " << state.topology.node_rank << '\n';
}
void show_config() { show_config(std::clog); }

}  // namespace unisono

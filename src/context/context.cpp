#include "unisono/context.h"

#include <atomic>
#include <exception>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "base/error_place.h"
#include "base/host.h"
#include "context/foreign.h"
#include "context/world.h"
#include "context/state.h"
#include "engines/plugins.h"
#include "engines/registry.h"
#include "rendezvous/carried.h"
#include "rendezvous/identity.h"
#include "rendezvous/rendezvous.h"
#include "unisono/detail/ending.h"

namespace unisono::context {

State::State(int own_rank, int ranks, std::shared_ptr<recorder::Recorder> record, Job joined)
    : rank(own_rank),
      world_size(ranks),
      job(std::move(joined)),
      launcher(job.facts.launcher_store, rank, job.facts.growth.names),
      progress(std::make_shared<group::Progress>("rank " + std::to_string(rank))),
      recorder(std::move(record)) {}

State::~State() {
  termination.reset();
  progress->stop();
}

void State::open_world(group::GroupParts parts) {
  coordination::Coordination& coordination = parts.core->coordination();
  parts.rank = rank;
  parts.global_ranks = coordination.global_ranks();
  parts.host_names = topology.host_names;
  parts.progress = progress;
  parts.recorder = recorder;
  progress->configure(coordination.notifier(), coordination.is_crowded(), coordination.neighbours());
  whole = std::make_shared<group::Group>(std::move(parts));
  world.emplace(whole);
}

std::optional<Device> State::device() const {
  const auto& of_engine = world->implementation()->facts().device();
  return of_engine ? of_engine : own_device;
}

bool State::is_after_mismatch() const { return mismatch_at == static_cast<std::int64_t>(world->implementation()->facts().sequence()); }

}  // namespace unisono::context

namespace unisono {
namespace context {
namespace {

// These objects are never destroyed, so that they outlast every static object that uses them.
std::mutex& mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}
/// The right to begin or to end the context of the process, which one thread has at a time. InvalidArgument for a function of the program's that is
/// called meanwhile, in the same thread, and asks for it again: it would wait for itself.
class Turn {
 public:
  explicit Turn(const char* operation) {
    if (is_taken_here()) {
      throw InvalidArgument("a function that initialize or finalize calls, as the handler of a scheme, cannot begin or end the context itself",
                            {.operation = operation});
    }
    mutex().lock();
    is_taken_here() = true;
  }
  ~Turn() {
    is_taken_here() = false;
    mutex().unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  static bool& is_taken_here() {
    static thread_local bool taken = false;
    return taken;
  }
};
std::atomic<State*> of_process{nullptr};
thread_local State* thread_state = nullptr;
std::atomic<int> hint{-1};

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

enum class End { finalize, at_exit, by_exception };

void end(State* state, End how) {
  using coordination::Leaving;
  if (how == End::by_exception) abandon(*state, Leaving::by_exception);
  else leave(*state, how == End::at_exit ? Leaving::at_exit : Leaving::in_order);
  group::guard_against_fork(false);
  delete state;
}

}  // namespace

static State* adopt();

State*& of_thread() { return thread_state; }

State* exchange_current(State* now) {
  if (thread_state != nullptr) return std::exchange(thread_state, now);
  return of_process.exchange(now, std::memory_order_acq_rel);
}

State* initialized() {
  if (thread_state != nullptr) return thread_state;
  return of_process.load(std::memory_order_acquire);
}

State& current() {
  if (group::in_forked_child()) not_initialized();
  if (State* state = initialized()) [[likely]]
    return *state;
  if (State* state = adopt()) return *state;
  if (rendezvous::launched_as_many(base::Environment::process())) not_initialized();
  return lone_state();
}

std::optional<int> local_rank_hint() {
  const int value = hint.load();
  return value < 0 ? std::nullopt : std::optional<int>(value);
}

/// The reasons why a context exists. A job formed by somebody else is adopted until finalize, or for a while: until `sync` looks again.
enum class Found { asked_for, adopted, adopted_for_a_while };

static void install(const InitOptions& options, Found found) {
  const Turn turn("initialize");
  if (group::in_forked_child()) not_initialized();
  if (thread_state != nullptr || of_process.load() != nullptr) {
    throw AlreadyInitialized("this process is already initialized", {.operation = "initialize", .hint = "call finalize before another initialize"});
  }
  auto state = join(options, {.is_adopted = found != Found::asked_for});
  state->is_temporary = found == Found::adopted_for_a_while;
  group::guard_against_fork(true);
  of_process.store(state.release(), std::memory_order_release);
}

void replace_own(std::unique_ptr<State> grown) {
  const Turn turn("run_elastic");
  const std::unique_ptr<State> old(of_process.load());
  retire(*old);
  begin(*grown);
  of_process.store(grown.release(), std::memory_order_release);
}

/// Joins the job that somebody else has formed in this process. Returns null where there is none.
static State* adopt() {
  const auto options = foreign_job();
  if (!options) return nullptr;
  try {
    install(*options, Found::adopted);
  } catch (const AlreadyInitialized&) {  // NOLINT(bugprone-empty-catch): another thread was first
  }
  return initialized();
}

}  // namespace context

void initialize(const InitOptions& options) { context::install(options, context::Found::asked_for); }

namespace context {
namespace {

void end_own(End how) {
  if (how == End::at_exit && Turn::is_taken_here()) return;  // a handler that ends the program: there is no context yet, or it ends already
  const Turn turn("finalize");
  if (group::in_forked_child() || thread_state != nullptr) return;  // the ranks of run_threads end with their function
  if (auto* state = of_process.exchange(nullptr)) end(state, how);
}

}  // namespace
}  // namespace context

void finalize() { context::end_own(context::End::finalize); }
void detail::leave_at_exit() { context::end_own(context::End::at_exit); }

void detail::give_up(std::string_view how, std::optional<int> blamed) {
  if (context::State* state = context::initialized()) context::give_up(*state, how, blamed);
}

Context::Context() : Context(InitOptions{}) {}
Context::Context(const InitOptions& options) : exceptions_(std::uncaught_exceptions()) { initialize(options); }
Context::~Context() {
  if (group::in_forked_child()) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      detail::give_up("gave up: an exception left the scope of its Context");
      context::end_own(context::End::by_exception);
    } else {
      finalize();
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell; the peers notice a rank that left without a goodbye
  }
}

bool is_initialized() { return !group::in_forked_child() && context::initialized() != nullptr; }

ProcessGroup world() { return *context::current().world; }
const ProcessGroup& current_world(std::source_location where) {
  return base::with_place(where, []() -> const ProcessGroup& { return *context::current().world; });
}

int rank() { return dist_info().rank; }
int world_size() { return dist_info().world_size; }
int local_rank() { return context::current().topology.local_rank; }
int nproc_per_node() { return context::current().topology.nproc_per_node; }
int nnodes() { return context::current().topology.nnodes; }
int node_rank() { return context::current().topology.node_rank; }
// The numbers of a job that somebody else has formed are known without joining it. Joining would need all its processes at the same time.
DistInfo dist_info() {
  if (!group::in_forked_child() && context::initialized() == nullptr) {
    if (const auto options = context::foreign_job(); options && options->rank && options->world_size) return {*options->rank, *options->world_size};
  }
  const context::State& state = context::current();
  return {state.rank, state.world_size};
}
std::string hostname() { return base::host_name(); }
Device device() { return context::current().device().value_or(Device{}); }

std::optional<std::string> backend() {
  const context::State& state = context::current();
  if (state.world_size == 1 && state.world->backend() == "serial") return std::nullopt;
  return state.world->backend();
}
std::string model_name() {
  const auto name = backend();
  return name ? *name + "-dist" : "serial";
}
namespace {
/// Only a process that has joined a job may start the runtime of a device, because any other process may still fork its ranks.
engines::Look look_of_process() { return context::initialized() == nullptr ? engines::Look::from_outside : engines::Look::as_a_rank; }
}  // namespace
std::vector<std::string> available_backends() { return engines::available(look_of_process()); }
bool is_backend_available(std::string_view name) { return engines::availability(name, look_of_process()).available; }

void sync(bool temporary) {
  {
    // A context that the last call adopted for a while ends here, and the job is looked for again.
    const context::Turn turn("sync");
    auto* state = context::of_process.load();
    if (state != nullptr && state->is_temporary) {
      context::of_process.store(nullptr);
      context::end(state, context::End::finalize);
    }
  }
  if (is_initialized()) return;
  if (const auto options = context::foreign_job()) {
    context::install(*options, temporary ? context::Found::adopted_for_a_while : context::Found::adopted);
  }
}

void set_local_rank(int index) {
  if (index < 0) throw InvalidArgument("a local rank is not negative: " + std::to_string(index), {.operation = "set_local_rank"});
  context::hint.store(index);
}

Launcher infer_launcher() { return rendezvous::infer_launcher(base::Environment::process()); }

std::optional<int> launcher_local_rank() {
  const auto given = rendezvous::identity_from_environment(base::Environment::process()).local_rank;
  return given ? std::optional(given->value) : std::nullopt;
}

bool is_torchelastic_launched() { return base::Environment::process().has("TORCHELASTIC_RUN_ID"); }

void show_config(std::ostream& out) {
  const context::State& state = context::current();
  if (state.rank != 0) return;
  out << "distributed configuration: " << model_name() << '\n'
      << "backend: " << backend().value_or("None") << '\n'
      << "device: " << (device().type == Device::Type::cpu ? "cpu" : "cuda") << '\n'
      << "hostname: " << hostname() << '\n'
      << "world size: " << state.world_size << '\n'
      << "rank: " << state.rank << '\n'
      << "local rank: " << state.topology.local_rank << '\n'
      << "num processes per_node: " << state.topology.nproc_per_node << '\n'
      << "num nodes: " << state.topology.nnodes << '\n'
      << "node rank: " << state.topology.node_rank << '\n';
}
void show_config() { show_config(std::clog); }

}  // namespace unisono

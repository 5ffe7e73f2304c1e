#include "context/state.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engines/device_copy.h"
#include "engines/plugins.h"
#include "engines/registry.h"
#include "context/engines.h"
#include "context/formation.h"
#include "context/growth.h"
#include "context/schemes.h"
#include "context/termination.h"
#include "context/topology.h"
#include "base/deadline.h"
#include "base/environment.h"
#include "base/host.h"
#include "base/log.h"
#include "group/calls/shapes.h"
#include "rendezvous/newcomer.h"
#include "rendezvous/reach.h"
#include "rendezvous/secret.h"
#include "schedule/network_override.h"
#include "schedule/selection.h"
#include "rendezvous/rendezvous.h"
#include "store/own_keys_store.h"
#include "transport/tcp/eager.h"

namespace unisono::context {
namespace {

std::chrono::milliseconds timeout_of(const InitOptions& options, const base::Environment& environment) {
  if (options.timeout.count() <= 0) throw InvalidArgument("the timeout must be positive", {.operation = "initialize"});
  if (options.timeout != rendezvous::default_timeout) return base::clamped(options.timeout);
  const auto seconds = environment.get_int("UNISONO_TIMEOUT");
  if (!seconds) return options.timeout;
  if (*seconds <= 0) throw InvalidArgument("UNISONO_TIMEOUT must be a positive number of seconds", {.operation = "initialize"});
  return std::chrono::seconds(*seconds);
}

std::unique_ptr<State> make_state(int rank, int world_size) {
  auto state = std::make_unique<State>();
  state->rank = rank;
  state->world_size = world_size;
  state->progress = std::make_shared<group::Progress>("rank " + std::to_string(rank));
  state->recorder = recorder::of_process();
  return state;
}

/// Returns the prefix of this world's keys in the job's store.
std::string world_prefix(const rendezvous::JobIdentity& identity) { return "unisono/world/" + std::to_string(identity.generation) + "/"; }

Formation::Parts formation_of_world(const rendezvous::JobIdentity& identity) {
  Formation::Parts parts{.operation = "initialize", .group = {}, .rank = identity.rank, .size = identity.world_size, .store = {}};
  for (const rendezvous::Member& member : identity.members) parts.hosts.push_back(member.host);
  if (identity.world_size == 1) {
    parts.store = std::make_shared<MemoryStore>();
    return parts;
  }
  parts.store = std::make_shared<PrefixStore>(world_prefix(identity), identity.store);
  parts.serves_store = identity.serves_store;
  if (identity.launcher_store) parts.look = [launcher = identity.launcher_store] { rendezvous::throw_if_a_rank_ended(*launcher); };
  return parts;
}

}  // namespace

std::optional<Device> State::device() const {
  const auto& of_engine = world->implementation()->facts().device();
  return of_engine ? of_engine : own_device;
}

bool State::is_after_mismatch() const { return mismatch_at == static_cast<std::int64_t>(world->implementation()->facts().sequence()); }

int State::place_of(int rank_in_world) const {
  const auto& names = facts.growth.names;
  const auto index = static_cast<std::size_t>(rank_in_world);
  return rank_in_world < 0 || index >= names.size() ? rank_in_world : rendezvous::place_of(names[index]);
}

std::string State::name_of(int rank_in_world) const {
  const auto& names = facts.growth.names;
  const auto index = static_cast<std::size_t>(rank_in_world);
  return index < names.size() ? names[index] : std::to_string(rank_in_world);
}

void tell_launcher(const State& state, const std::string& status) noexcept {
  if (!state.launcher_store) return;
  try {
    state.launcher_store->set("unisono/status/" + std::to_string(state.place_of(state.rank)), status);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the launcher is gone and has nothing to learn
  }
}

void tell_failure(State& state, int culprit, const std::string& message) noexcept {
  if (culprit == state.rank && state.blames_another) return;
  if (culprit != state.rank) state.blames_another = true;
  tell_launcher(state, "poisoned " + std::to_string(state.place_of(culprit)) + " " + message);
}

std::string mismatch_status(int culprit, int ranks, const std::string& text) {
  return "mismatch " + std::to_string(culprit) + " " + std::to_string(ranks) + " " + text;
}

void log_group(const ProcessGroup& group) {
  base::debug(fmt::format("group {}: rank {} of {}, engine {}, timeout {} s; compared: operation, dtype, count, op, root{}", group.name(),
                          group.rank(), group.size(), group.backend(),
                          std::chrono::duration_cast<std::chrono::seconds>(group.implementation()->facts().timeout()).count(),
                          group.implementation()->facts().compares_shapes() ? ", shape" : ""));
}

State::~State() {
  forget_termination(*this);
  if (progress) progress->stop();
}

std::unique_ptr<State> alone() {
  auto state = make_state(0, 1);
  state->topology.host_names = {base::host_name()};
  group::GroupParts parts;
  parts.name = "world";
  parts.global_ranks = {0};
  parts.host_names = state->topology.host_names;
  parts.core = std::make_unique<group::GroupCore>(group::parts_alone());
  parts.timeout = timeout_of({}, base::Environment::process());
  parts.progress = state->progress;
  parts.recorder = state->recorder;
  state->world.emplace(std::make_shared<group::Group>(std::move(parts)));
  state->whole = state->world->implementation();
  return state;
}

std::unique_ptr<State> join(const InitOptions& options, const Terms& terms) {
  if (const auto resolved = through_handler(options)) return join(*resolved, terms);
  const auto& environment = base::Environment::process();
  const auto timeout = timeout_of(options, environment);
  // A wrong request is refused before any rank is waited for.
  static_cast<void>(engines::host_backend(options.backend, engines::Look::as_a_rank));
  static_cast<void>(group::wants_shapes(environment));
  static_cast<void>(group::refused_values(environment));
  schedule::check_override(schedule::schedule_override());
  static_cast<void>(schedule::parse_network(schedule::network_override()));
  static_cast<void>(transport::most_eager_connections(environment));
  engines::check_variables(environment);
  rendezvous::JobRequest request;
  request.init_method = options.init_method;
  request.rank = options.rank;
  request.world_size = options.world_size;
  request.local_rank = options.local_rank;
  request.group_name = options.group_name;
  request.timeout = timeout;
  request.store = options.store;
  request.store_may_end = !terms.are_job;
  request.library = terms.library;
  request.find_bootstrap = engines::bootstrap;
  if (auto facts = rendezvous::facts_of_newcomer(request, environment)) return join_running_job(options, terms, *facts);
  rendezvous::JobIdentity identity = rendezvous::meet(request, environment);
  Formation::Parts parts = formation_of_world(identity);
  std::shared_ptr<store::OwnKeysStore> keys;
  if (identity.growth.store) parts.store = keys = std::make_shared<store::OwnKeysStore>(std::move(parts.store));
  Formation formation(std::move(parts));
  try {
    auto state = form_world(options, terms, identity, formation, base::Deadline(rendezvous::join_timeout(timeout, environment)));
    if (keys) state->keys.push_back(std::move(keys));
    begin(*state);
    return state;
  } catch (...) {
    const std::exception_ptr error = formation.explain(std::current_exception());
    formation.give_up(error);
    std::rethrow_exception(error);
  }
}

namespace {

group::CoreOptions options_of_world(const State& state, const Terms& terms, const rendezvous::JobIdentity& identity, const Formation& formation,
                                    std::string_view backend, std::chrono::milliseconds timeout) {
  group::CoreOptions options;
  options.group_name = terms.name;
  options.rank = identity.rank;
  for (int r = 0; r < identity.world_size; ++r) options.global_ranks.push_back(r);
  options.host_names = state.topology.host_names;
  // Tests let ranks present themselves as being on other hosts. Engines that were asked for by name see these hosts; the native engine does not.
  if (state.topology.machines > 1 || backend != "auto") options.hosts = state.topology.hosts;
  options.local_rank = state.local_rank;
  options.crowding = std::max(1.0, static_cast<double>(state.topology.ranks_under_kernel) / state.topology.processors);
  options.address = identity.address;
  if (identity.token && *identity.token != "none") options.token = *identity.token;
  options.key = "world";
  options.networks = std::make_shared<schedule::MeasuredNetworks>();
  options.store = formation.watched();
  options.job_store = identity.launcher_store;
  options.launched = identity.growth.names;
  options.timeout = timeout;
  return options;
}

/// Makes the cores of later groups on the engines of the world, or on those that a group asks for. `all_hosts`: by global rank.
CoreMaker core_maker(const Selection& selection, const group::CoreOptions& of_world, const std::vector<int>& all_hosts) {
  return [selection, hosts = of_world.hosts, all_hosts, local_rank = of_world.local_rank, address = of_world.address, networks = of_world.networks](
             const group::CoreOptions& given, const std::string& backend) {
    group::CoreOptions of_group = given;
    const auto place = [&](const std::vector<int>& hosts_of_world) {
      of_group.hosts.clear();
      for (const int r : given.global_ranks) {
        if (!hosts_of_world.empty()) of_group.hosts.push_back(hosts_of_world[static_cast<std::size_t>(r)]);
      }
    };
    place(all_hosts);
    const Selection of_its_own = select_for_group(selection, backend, of_group.hosts);
    if (of_its_own.asked == selection.asked || of_its_own.asked == "auto") place(hosts);
    of_group.local_rank = local_rank;
    of_group.address = address;
    of_group.networks = networks;
    return make_group_core(of_its_own, of_group);
  };
}

/// The ranks of a job that has grown have the local ranks of their places, which are those of their devices.
int local_rank_of(const rendezvous::JobIdentity& identity, const Terms& terms, const Topology& topology) {
  if (!terms.are_job || identity.growth.generation > 1) return identity.local_rank.value_or(topology.local_rank);
  return choose_local_rank(identity.local_rank, local_rank_hint(), topology);
}

std::vector<std::string> names_of(const std::vector<rendezvous::Member>& members) {
  std::vector<std::string> names;
  for (const rendezvous::Member& member : members) names.push_back(fmt::format("{} {} {}", member.machine, member.host, member.pid));
  return names;
}

void identify(const State& state, const std::vector<rendezvous::Member>& members) {
  state.recorder->set_identity({.rank = state.rank,
                                .size = state.world_size,
                                .local_rank = state.local_rank,
                                .node = state.topology.node_rank,
                                .host = base::host_name(),
                                .job = state.facts.job_id,
                                .members = names_of(members)});
}

}  // namespace

std::unique_ptr<State> form_world(const InitOptions& options, const Terms& terms, const rendezvous::JobIdentity& identity, const Formation& formation,
                                  const base::Deadline& deadline) {
  const auto& environment = base::Environment::process();
  const auto timeout = timeout_of(options, environment);
  rendezvous::check_secret(identity, environment);
  auto state = make_state(identity.rank, identity.world_size);
  state->options = options;
  state->terms = terms;
  state->facts = rendezvous::facts_of(identity);
  state->launcher_store = identity.launcher_store;
  state->store = identity.store;
  if (identity.world_size > 1) {
    state->topology = topology_of(identity.members, identity.rank);
  } else {
    state->topology.host_names = {base::host_name()};
  }
  state->local_rank = local_rank_of(identity, terms, state->topology);
  const Topology& topology = state->topology;
  if (identity.growth.generation == 1) identify(*state, identity.members);  // a later one may be abandoned
  base::debug(fmt::format("local rank {} on host {} of {} ({}), which has {} of the {} ranks", state->local_rank, topology.node_rank, topology.nnodes,
                          base::host_name(), topology.nproc_per_node, identity.world_size));
  const Selection selection = select_engines(options, environment, state->topology, identity.launcher,
                                             {identity.rank, identity.world_size, *formation.watched(), deadline, state->local_rank});
  state->own_device = selection.own_device;
  // Without an engine of devices nobody else brings the runtime, which knows where memory lies.
  if (selection.device.empty() && selection.own_device) static_cast<void>(engines::require_runtime(selection.own_device->type));

  const group::CoreOptions core_options = options_of_world(*state, terms, identity, formation, selection.asked, deadline.left());
  group::GroupParts parts;
  parts.name = terms.name;
  parts.rank = identity.rank;
  parts.global_ranks = core_options.global_ranks;
  parts.generation = state->generation();
  parts.host_names = core_options.host_names;
  state->make_core = core_maker(selection, core_options, state->topology.hosts);
  state->group_store = formation.store();
  state->group_store->set_timeout(timeout);
  parts.core = make_group_core(selection, core_options);
  parts.timeout = timeout;
  parts.progress = state->progress;
  parts.recorder = state->recorder;
  if (!terms.are_job) parts.recorded_ranks = state->recorder->ranks_of(names_of(identity.members));
  parts.on_failure = [raw = state.get()](const Failure& failure) {
    if (!raw->is_after_mismatch()) tell_failure(*raw, failure.culprit, failure.message);
  };
  parts.on_error_of_all = [raw = state.get()](const std::string& text, int culprit, int ranks) {
    tell_launcher(*raw, mismatch_status(raw->place_of(culprit), ranks, text));
  };
  coordination::Coordination& coordination = parts.core->coordination();
  state->progress->configure(coordination.notifier(), coordination.is_crowded(), coordination.neighbours());
  state->world.emplace(std::make_shared<group::Group>(std::move(parts)));
  state->whole = state->world->implementation();
  state->leave_job = identity.leave;
  state->serves_store = identity.serves_store;
  state->is_job = terms.are_job && !terms.is_adopted;
  if (terms.are_job && identity.world_size > 1 && identity.store != identity.launcher_store) state->goodbye_key = world_prefix(identity) + "goodbye/";
  return state;
}

void begin(State& state) {
  base::set_log_rank("rank " + std::to_string(state.rank));
  identify(state, {});  // of a process that came later
  log_group(*state.world);
  state.recorder->set_state(recorder::RankState::running);
  watch_termination(state);
  // Only a job of `initialize` owes its launcher a `finalize`.
  tell_launcher(state, state.is_job ? "initialized" : "member");
}

}  // namespace unisono::context

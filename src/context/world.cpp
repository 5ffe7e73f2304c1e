#include "context/world.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "context/engines.h"
#include "context/formation.h"
#include "context/foreign.h"
#include "engines/device_copy.h"
#include "engines/plugins.h"
#include "engines/registry.h"
#include "group/calls/check.h"
#include "rendezvous/growth.h"
#include "rendezvous/reach.h"
#include "rendezvous/plan.h"
#include "schedule/selection.h"
#include "store/wrappers.h"

namespace unisono::context {
namespace {

/// Returns the launcher's store for the ranks of this host, if they all have this launcher and no other ranks do; null else. What they tell each
/// other does not go through the store of the job then.
std::shared_ptr<Store> store_of_host(const rendezvous::JobIdentity& identity, const Topology& topology, const Formation& formation) {
  const bool is_of_several_hosts = identity.launcher_store && identity.growth.store && identity.growth.store != identity.launcher_store;
  if (!is_of_several_hosts || identity.growth.generation > 1 || identity.local_world_size != topology.nproc_per_node) return nullptr;
  return formation.watch(std::make_shared<PrefixStore>(world_prefix(identity), identity.launcher_store));
}

group::CoreOptions options_of_world(const State& state, const rendezvous::JobIdentity& identity, const Formation& formation, std::string_view backend,
                                    std::chrono::milliseconds timeout) {
  const Topology& topology = state.topology;
  group::CoreOptions options;
  options.group_name = state.job.terms.name;
  options.rank = identity.rank;
  options.global_ranks.resize(static_cast<std::size_t>(identity.world_size));
  std::iota(options.global_ranks.begin(), options.global_ranks.end(), 0);
  // Tests let ranks present themselves as being on other hosts. Engines that were asked for by name see these hosts; the native engine does not.
  if (topology.machines > 1 || backend != "auto") options.hosts = topology.hosts;
  options.local_rank = topology.local_rank;
  options.crowding = std::max(1.0, static_cast<double>(topology.ranks_under_kernel) / topology.processors);
  options.address = identity.address;
  if (identity.token && *identity.token != "none") options.token = *identity.token;
  options.key = "world";
  options.networks = std::make_shared<schedule::MeasuredNetworks>();
  options.store = formation.watched();
  options.launcher = {.store = identity.launcher_store, .for_host = store_of_host(identity, topology, formation), .names = identity.growth.names};
  options.timeout = timeout;
  return options;
}

/// Makes the cores of later groups on the engines of the world, or on those that a group asks for. `state` outlives it.
CoreMaker core_maker(const State& state, const Selection& selection, const group::CoreOptions& of_world) {
  return [&state, selection, has_hosts = !of_world.hosts.empty(), local_rank = of_world.local_rank, address = of_world.address,
          networks = of_world.networks](const group::CoreOptions& given, const std::string& backend) {
    group::CoreOptions of_group = given;
    const std::vector<int>& hosts = state.topology.hosts;  // none in a world of one
    of_group.hosts.clear();
    for (const int r : given.global_ranks) {
      if (!hosts.empty()) of_group.hosts.push_back(hosts[static_cast<std::size_t>(r)]);
    }
    const Selection of_its_own = select_for_group(selection, backend, of_group.hosts);
    const bool is_as_world = of_its_own.asked == selection.asked || of_its_own.asked == "auto";
    if (is_as_world && !has_hosts) of_group.hosts.clear();
    of_group.local_rank = local_rank;
    of_group.address = address;
    of_group.networks = networks;
    return make_group_core(of_its_own, of_group);
  };
}

/// The ranks of a job that has grown have the local ranks of their places, which are those of their devices.
int local_rank_of(const rendezvous::JobIdentity& identity, const Terms& terms, const Topology& topology) {
  if (!terms.are_job || identity.growth.generation > 1) return identity.local_rank.value_or(topology.local_rank);
  return topology.choose_local_rank(identity.local_rank, local_rank_hint());
}

/// Returns what tells each of these processes from all others.
std::vector<std::uint64_t> marks_of(const std::vector<rendezvous::Member>& members) {
  std::vector<std::uint64_t> marks;
  marks.reserve(members.size());
  for (const rendezvous::Member& member : members) {
    marks.push_back(base::stable_hash(fmt::format("{} {} {}", member.machine.get(), member.host.get(), member.pid)));
  }
  return marks;
}

/// Returns what tells this world of processes from others that exist at the same time.
std::uint64_t mark_of(const rendezvous::JobIdentity& identity) {
  base::StableHash hash;
  hash.add(static_cast<std::uint64_t>(identity.growth.generation));
  for (const std::uint64_t mark : marks_of(identity.members)) hash.add(mark);
  return hash.value();
}

void identify(const State& state, const std::vector<rendezvous::Member>& members) {
  state.recorder->set_identity({.rank = state.rank,
                                .size = state.world_size,
                                .local_rank = state.topology.local_rank,
                                .node = state.topology.node_rank,
                                .host = base::host_name(),
                                .job = state.job.facts.job_id,
                                .members = marks_of(members)});
}

}  // namespace

std::chrono::milliseconds timeout_of(const InitOptions& options, const base::Environment& environment) {
  if (options.timeout.count() <= 0) throw InvalidArgument("the timeout must be positive", {.operation = "initialize"});
  if (options.timeout != rendezvous::default_timeout) return base::clamped(options.timeout);
  const auto seconds = environment.get_int("UNISONO_TIMEOUT");
  if (!seconds) return options.timeout;
  if (*seconds <= 0) throw InvalidArgument("UNISONO_TIMEOUT must be a positive number of seconds", {.operation = "initialize"});
  return std::chrono::seconds(*seconds);
}

std::unique_ptr<State> alone() {
  auto state = std::make_unique<State>(0, 1, recorder::of_process());
  state->topology.host_names = {base::host_name()};
  group::GroupParts parts;
  parts.name = "world";
  parts.core = std::make_unique<group::GroupCore>(group::parts_alone());
  parts.timeout = timeout_of({}, base::Environment::process());
  state->open_world(std::move(parts));
  return state;
}

std::unique_ptr<State> form_world(const InitOptions& options, const Terms& terms, const rendezvous::JobIdentity& identity, const Formation& formation,
                                  const base::Deadline& deadline) {
  const auto& environment = base::Environment::process();
  const auto timeout = timeout_of(options, environment);
  rendezvous::check_secret(identity, environment);
  auto state =
      std::make_unique<State>(identity.rank, identity.world_size, recorder::of_process(), Job{options, terms, rendezvous::facts_of(identity)});
  state->mark = mark_of(identity);
  Topology& topology = state->topology;
  if (identity.world_size > 1) topology = topology_of(identity.members, identity.rank);
  else topology.host_names = {base::host_name()};
  topology.local_rank = local_rank_of(identity, terms, topology);
  if (identity.growth.generation == 1) identify(*state, identity.members);  // a later one may be abandoned
  base::debug(fmt::format("local rank {} on host {} of {} ({}), which has {} of the {} ranks", topology.local_rank, topology.node_rank,
                          topology.nnodes, base::host_name(), topology.nproc_per_node, identity.world_size));
  const Selection selection = select_engines(options, environment, topology, identity.launcher,
                                             {identity.rank, identity.world_size, *formation.watched(), deadline, topology.local_rank});
  state->own_device = selection.own_device;
  // Without an engine of devices nobody else brings the runtime, which knows where memory lies.
  if (selection.device.empty() && selection.own_device) static_cast<void>(engines::require_runtime(selection.own_device->type));

  const group::CoreOptions core_options = options_of_world(*state, identity, formation, selection.asked, deadline.left());
  state->groups = FormedGroups(formation.store(), core_maker(*state, selection, core_options));
  formation.store()->set_timeout(timeout);
  group::GroupParts parts;
  parts.name = terms.name;
  parts.generation = state->job.generation();
  parts.core = make_group_core(selection, core_options);
  parts.timeout = timeout;
  if (!terms.are_job) parts.recorded_ranks = state->recorder->ranks_of(marks_of(identity.members));
  parts.on_failure = [raw = state.get()](const Failure& failure) {
    if (!raw->is_after_mismatch()) raw->launcher.tell_failure(failure.culprit, failure.message);
  };
  parts.on_error_of_all = [raw = state.get()](const std::string& text, int culprit, int ranks) { raw->launcher.tell_mismatch(culprit, ranks, text); };
  state->open_world(std::move(parts));
  state->goodbye = Goodbye(identity, terms);
  return state;
}

void begin(State& state) {
  base::set_log_rank("rank " + std::to_string(state.rank));
  identify(state, {});  // of a process that came later
  log_group(*state.world);
  state.recorder->set_state(recorder::RankState::running);
  state.termination = watch_termination(state);
  // Only a job of `initialize` owes its launcher a `finalize`.
  state.launcher.tell(state.job.owes_finalize() ? "initialized" : "member");
}

namespace {

/// Refuses a wrong request before any rank is waited for.
void check_request(const InitOptions& options, const base::Environment& environment) {
  static_cast<void>(engines::host_backend(options.backend, engines::Look::as_a_rank));
  static_cast<void>(group::wants_shapes(environment));
  static_cast<void>(group::refused_values(environment));
  schedule::check_override(schedule::schedule_override());
  static_cast<void>(schedule::parse_network(schedule::network_override()));
  engines::check_settings(environment);
}

Formation::Parts formation_of_world(const rendezvous::JobIdentity& identity) {
  Formation::Parts parts{.operation = "initialize", .group = {}, .rank = identity.rank, .size = identity.world_size, .store = {}};
  parts.hosts = rendezvous::host_names(identity.members);
  if (identity.world_size == 1) {
    parts.store = std::make_shared<MemoryStore>();
    return parts;
  }
  parts.store = std::make_shared<PrefixStore>(world_prefix(identity), identity.store);
  parts.serves_store = identity.serves_store;
  if (identity.launcher_store) {
    parts.look = [launcher = identity.launcher_store] { rendezvous::throw_if_a_rank_ended(*launcher, rendezvous::EndsThatCount::before_finalize); };
  }
  return parts;
}

}  // namespace

std::unique_ptr<State> join(const InitOptions& options, const Terms& terms) {
  if (const auto resolved = through_handler(options)) return join(*resolved, terms);
  const auto& environment = base::Environment::process();
  const auto timeout = timeout_of(options, environment);
  check_request(options, environment);
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
  if (auto facts = rendezvous::facts_of_newcomer(request, environment)) return join_running_job({options, terms, *std::move(facts)});
  rendezvous::JobIdentity identity = rendezvous::meet(request, environment);
  Formation::Parts parts = formation_of_world(identity);
  std::shared_ptr<store::OwnKeysStore> keys;
  if (identity.growth.store) parts.store = keys = std::make_shared<store::OwnKeysStore>(std::move(parts.store));
  Formation formation(std::move(parts));
  try {
    auto state = form_world(options, terms, identity, formation, base::Deadline(rendezvous::join_timeout(timeout, environment)));
    if (keys) state->keys.add(std::move(keys));
    begin(*state);
    return state;
  } catch (...) {
    const std::exception_ptr error = formation.explain(std::current_exception());
    formation.give_up(error);
    std::rethrow_exception(error);
  }
}

std::unique_ptr<State> form_part(State& whole, const std::string& key, int rank, int size, const InitOptions& options) {
  if (whole.form_part) return whole.form_part(key, rank, size);
  InitOptions own = options;
  own.rank = rank;
  own.world_size = size;
  own.store = std::make_shared<PrefixStore>(key, whole.groups.store());
  auto part = join(own, {.name = name_of_part, .are_job = false});
  base::set_log_rank(fmt::format("rank {}", whole.rank));
  return part;
}

}  // namespace unisono::context

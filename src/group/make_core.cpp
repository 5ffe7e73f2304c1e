// Makes the parts of a group from the facts about its members.
#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "coordination/host_ranks.h"
#include "group/group_core.h"
#include "transport/tcp/link.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

using coordination::Coordination;
using coordination::CoordinationParts;
using coordination::GroupTopology;

/// Returns the launcher's name for a member. `names`: its names for the members; empty: their global ranks.
std::string launched_name(const std::vector<std::string>& names, const std::vector<int>& global_ranks, int member) {
  const auto m = static_cast<std::size_t>(member);
  return names.empty() ? std::to_string(global_ranks[m]) : names[m];
}

/// The hosts of the members, numbered anew within the group.
std::vector<int> hosts_of(const CoreOptions& options) {
  std::vector<int> hosts(options.global_ranks.size(), 0);
  std::vector<int> seen;
  for (std::size_t r = 0; r < options.hosts.size(); ++r) {
    auto found = std::find(seen.begin(), seen.end(), options.hosts[r]);
    if (found == seen.end()) found = seen.insert(seen.end(), options.hosts[r]);
    hosts[r] = static_cast<int>(found - seen.begin());
  }
  return hosts;
}

std::shared_ptr<Store> under(const CoreOptions& options, const std::string& prefix) { return std::make_shared<PrefixStore>(prefix, options.store); }

/// Returns the part of a store for the ranks of this host.
std::shared_ptr<Store> store_of_host(const CoreOptions& options, const GroupTopology& topology) {
  return std::make_shared<PrefixStore>(fmt::format("host/{}/", topology.host()), options.launcher.store_of_host(options.store));
}

/// Returns what the launcher has recorded of the members.
coordination::RecordedEndings recorded_endings(const CoreOptions& options) {
  const bool is_world = options.world == nullptr;  // whose members have their global ranks as names, where these are not given
  if (is_world && options.launcher.names.empty()) return {options.launcher.store, [](int r) { return std::to_string(r); }};
  return {options.launcher.store, [names = options.launcher.names, ranks = options.global_ranks](int r) { return launched_name(names, ranks, r); }};
}

coordination::HostRanks join_host(const CoreOptions& options, const GroupTopology& topology, bool is_engine_of_group) {
  coordination::HostOptions host{.group_name = options.group_name,
                                 .rank = topology.local,
                                 .names = topology.members,
                                 .store = is_engine_of_group ? options.store : store_of_host(options, topology),
                                 .job_store = options.launcher.store,
                                 .world = options.world,
                                 .timeout = options.timeout};
  for (const int r : topology.members) {
    host.global_ranks.push_back(options.global_ranks[static_cast<std::size_t>(r)]);
    host.launched.push_back(launched_name(options.launcher.names, options.global_ranks, r));
  }
  return coordination::join_host(host);
}

/// Returns the notifier of this rank. Links and engines may outlive the group: they keep what they notify.
std::shared_ptr<base::Notifier> notifier_of(const GroupTopology& topology, const CoordinationParts& parts) {
  if (!parts.host.engine) return parts.notifier;
  return {parts.host.engine->memory(), &parts.host.engine->memory()->notifier(topology.local)};
}

/// Returns the secret by which ranks know each other beside what the store tells them: the job's. Without one, ranks of one host have that of their
/// shared memory, since others may be able to read the store.
base::Secret secret_of(const CoreOptions& options, const GroupTopology& topology, const coordination::HostRanks& host) {
  if (!options.token.empty() || topology.host_count() > 1 || !host.engine) return options.token;
  const auto& secret = host.engine->memory()->process(0).secret;
  return std::string_view(secret.data(), secret.size());
}

/// Makes the connections of a world with the ranks of other hosts, or with all ranks.
std::shared_ptr<transport::Link> connect(const CoreOptions& options, const GroupTopology& topology, bool all, const base::Secret& secret,
                                         const std::shared_ptr<base::Notifier>& notifier) {
  return transport::Link::connect({.rank = options.rank,
                                   .hosts = topology.hosts,
                                   .address = options.address,
                                   .store = under(options, "link/"),
                                   .token = secret,
                                   .tls = base::tls_options(base::Environment::process()),
                                   .timeout = options.timeout,
                                   .all = all,
                                   .most_eager = transport::most_eager_connections(base::Environment::process()),
                                   .notify = [notifier] { notifier->notify(); },
                                   .has_waiter = [notifier] { return notifier->has_waiters(); }});
}

EngineOptions engine_options(const CoreOptions& options, const GroupTopology& topology, const std::string& prefix, bool is_crowded) {
  EngineOptions engine = options;
  engine.hosts = topology.hosts;
  engine.store = under(options, prefix);
  engine.crowded = is_crowded;
  return engine;
}

std::unique_ptr<Engine> make_rail(const CoreOptions& options, const GroupTopology& topology, EngineOptions rail, const engines::EngineMaker& maker,
                                  const std::shared_ptr<transport::Link>& link) {
  rail.group_name += fmt::format(" (rail {})", topology.local);
  rail.key += fmt::format("/rail{}", topology.local);
  rail.rank = topology.host();
  rail.global_ranks.clear();
  rail.hosts.clear();
  for (const int r : topology.rail) {
    rail.global_ranks.push_back(options.global_ranks[static_cast<std::size_t>(r)]);
    rail.hosts.push_back(topology.host_of(r));
  }
  rail.store = under(options, fmt::format("rail/{}/", topology.local));
  return maker.make(rail, link);
}

/// A group of the world's members may be on hosts between which another one has measured.
schedule::SharedNetworks shared_networks(const CoreOptions& options) {
  std::vector<int> hosts = options.hosts;
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  hosts.shrink_to_fit();  // it was as long as the group
  return {.measured = options.networks, .hosts = std::move(hosts), .may_be_known = options.world != nullptr};
}

/// Logs how the group's collectives will go.
void log_schedule(const CoreOptions& options, const GroupTopology& topology) {
  const std::string of_group = "schedule of group " + options.group_name;
  if (topology.has_levels()) {
    base::debug(fmt::format("{}: two levels, shared memory in each of {} hosts and {} between them", of_group, topology.host_count(),
                            topology.rails == 1 ? "one rail" : fmt::format("{} rails", topology.rails)));
  } else {
    base::debug(fmt::format("{}: one level, {} ranks by the engine at once", of_group, topology.size()));
  }
}

void add_device(const CoreOptions& options, const DeviceEngine& device, GroupCore::Parts& parts) {
  if (!device.make) return;
  Coordination& coordination = *parts.coordination;
  EngineOptions engine = engine_options(options, coordination.topology(), "device/", coordination.is_crowded());
  engine.at_need = device.at_need;
  parts.engines.device = device.make(engine);
  parts.name = device.name;
}

}  // namespace

std::unique_ptr<GroupCore> make_core(const CoreOptions& options, const engines::EngineMaker& maker, const DeviceEngine& device) {
  CoordinationParts parts{.key = options.key, .global_ranks = options.global_ranks, .topology = GroupTopology(options.rank, hosts_of(options))};
  const GroupTopology topology = parts.topology;
  if (options.world) parts.whereabouts = options.world->whereabouts();
  parts.recorded = recorded_endings(options);
  parts.crowding = options.world ? options.world->crowding() : options.crowding;
  const bool is_serial = topology.size() == 1 && maker.make && !maker.traits.spans_hosts;
  if (topology.host_count() > 1 && !maker.traits.spans_hosts) {
    throw BackendUnavailable(
        fmt::format("the ranks of group {} are on {} hosts, and this engine serves one", options.group_name, topology.host_count()));
  }
  if (!is_serial && (topology.members.size() > 1 || topology.size() == 1)) {
    parts.host = join_host(options, topology, maker.is_shared_memory);
  } else if (!options.world) {
    parts.notifier = std::make_shared<base::Notifier>();
  } else {
    parts.notifier = {options.world, options.world->notifier()};
  }
  if (topology.host_count() > 1 || (maker.connects_all && topology.size() > 1)) {
    parts.owns_link = options.world == nullptr;
    parts.link = options.world
                     ? options.world->link()
                     : connect(options, topology, maker.connects_all, secret_of(options, topology, parts.host), notifier_of(topology, parts));
  }
  GroupCore::Parts core;
  core.engine_is_on_link = maker.connects_all;
  if (maker.is_shared_memory) {
    core.engines.group = parts.host.engine;
  } else {
    EngineOptions engine = engine_options(options, topology, "engine/", parts.host.engine && parts.host.engine->is_crowded());
    const std::shared_ptr<base::Notifier> notifier = notifier_of(topology, parts);
    engine.notify = [notifier] { notifier->notify(); };
    engine.has_sleeper = [notifier] { return notifier->has_waiters(); };
    core.engines.group = maker.make(engine, parts.link);
    if (topology.has_levels() && !topology.rail.empty()) core.engines.rail = make_rail(options, topology, engine, maker, parts.link);
    log_schedule(options, topology);
  }
  core.coordination = std::make_shared<Coordination>(std::move(parts));
  core.networks = shared_networks(options);
  add_device(options, device, core);
  return std::make_unique<GroupCore>(std::move(core));
}

GroupCore::Parts parts_alone() {
  GroupCore::Parts core;
  core.coordination = std::make_shared<Coordination>(CoordinationParts{.key = {}, .global_ranks = {0}, .topology = GroupTopology(0, {0})});
  core.engines.group = engines::maker("serial").make({}, nullptr);
  return core;
}

GroupCore::Parts parts_of_threads(const std::shared_ptr<engines::HostMemory>& memory, int rank, int cpus, std::vector<int> global_ranks) {
  const auto ranks = static_cast<std::size_t>(memory->ranks());
  if (global_ranks.empty()) {
    global_ranks.resize(ranks);
    std::iota(global_ranks.begin(), global_ranks.end(), 0);
  }
  CoordinationParts parts{.key = {}, .global_ranks = std::move(global_ranks), .topology = GroupTopology(rank, std::vector<int>(ranks, 0))};
  parts.host = coordination::host_of_threads(memory, rank, cpus, parts.global_ranks);
  GroupCore::Parts core;
  core.engines.group = parts.host.engine;
  core.coordination = std::make_shared<Coordination>(std::move(parts));
  return core;
}

}  // namespace unisono::group

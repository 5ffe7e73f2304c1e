// From what is known of a group's members to its parts.
#include <algorithm>

#include <fmt/format.h>

#include "backends/spanning/spanning.h"
#include "ground/log.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

// Numbered anew within the group.
std::vector<int> hosts_of(const BackendOptions& options) {
  std::vector<int> hosts(options.global_ranks.size(), 0);
  std::vector<int> seen;
  for (std::size_t r = 0; r < options.hosts.size(); ++r) {
    auto found = std::find(seen.begin(), seen.end(), options.hosts[r]);
    if (found == seen.end()) found = seen.insert(seen.end(), options.hosts[r]);
    hosts[r] = static_cast<int>(found - seen.begin());
  }
  return hosts;
}

/// How its collectives will go.
void log_schedule(const SpanningParts& parts) {
  const Place& place = parts.place;
  const std::string of_group = "schedule of group " + parts.options.group_name;
  if (place.has_levels()) {
    ground::debug(fmt::format("{}: two levels, shared memory in each of {} hosts and {} between them", of_group, place.host_count(),
                              place.rails == 1 ? "one rail" : fmt::format("{} rails", place.rails)));
  } else {
    ground::debug(fmt::format("{}: one level, {} ranks by the engine at once", of_group, place.size()));
  }
}

}  // namespace

EngineOptions engine_options(const BackendOptions& options, const std::string& prefix, bool crowded) {
  EngineOptions engine;
  engine.group_name = options.group_name;
  engine.key = options.key;
  engine.rank = options.rank;
  engine.global_ranks = options.global_ranks;
  engine.hosts = hosts_of(options);
  engine.local_rank = options.local_rank;
  engine.address = options.address;
  engine.store = std::make_shared<PrefixStore>(prefix, options.store);
  engine.timeout = options.timeout;
  engine.crowded = crowded;
  return engine;
}

std::unique_ptr<Backend> make_spanning(const BackendOptions& options, const EngineMaker& maker) {
  const std::vector<int> hosts = hosts_of(options);
  SpanningParts parts{
      .options = options, .place = Place(options.rank, hosts), .engine = nullptr, .rail = nullptr, .host = nullptr, .link = nullptr, .bell = nullptr};
  const Place& place = parts.place;
  if (place.host_count() > 1 && !maker.traits.spans_hosts) {
    throw BackendUnavailable(
        fmt::format("the ranks of group {} are on {} hosts, and this engine serves one", options.group_name, place.host_count()));
  }
  const auto under = [&](const std::string& prefix) { return std::make_shared<PrefixStore>(prefix, options.store); };
  if (place.members.size() > 1 || place.size() == 1) {
    BackendOptions on_host = options;
    on_host.rank = place.local;
    on_host.names = place.members;
    on_host.global_ranks.clear();
    for (const int r : place.members) on_host.global_ranks.push_back(options.global_ranks[static_cast<std::size_t>(r)]);
    on_host.store = under(fmt::format("host/{}/", place.host()));
    parts.host = make_native(on_host);
  } else if (!options.world) {
    parts.bell = std::make_shared<engine::Bell>();
  }
  if (place.host_count() > 1 || (maker.connects_all && place.size() > 1)) {
    if (options.world) {
      parts.link = options.world->link();
    } else {
      parts.owns_link = true;
      transport::Link::Options to_others;
      to_others.rank = options.rank;
      to_others.hosts = hosts;
      to_others.all = maker.connects_all;
      to_others.address = options.address;
      to_others.store = under("link/");
      to_others.token = options.token;
      to_others.timeout = options.timeout;
      // The link may outlive the group: it keeps the bell that it rings.
      std::shared_ptr<engine::Bell> bell = parts.bell;
      if (parts.host) bell = {parts.host->segment(), parts.host->bell()};
      to_others.ring = [bell] { bell->ring(); };
      to_others.sleeper = [bell] { return bell->has_sleepers(); };
      parts.link = transport::Link::connect(to_others);
    }
  }
  const EngineOptions engine = engine_options(options, "engine/", parts.host && parts.host->crowded());
  parts.engine = maker.make(engine, parts.link);
  if (place.has_levels() && !place.rail.empty()) {
    EngineOptions rail = engine;
    rail.group_name += fmt::format(" (rail {})", place.local);
    rail.key += fmt::format("/rail{}", place.local);
    rail.rank = place.host();
    rail.global_ranks.clear();
    rail.hosts.clear();
    for (const int r : place.rail) {
      rail.global_ranks.push_back(options.global_ranks[static_cast<std::size_t>(r)]);
      rail.hosts.push_back(place.host_of(r));
    }
    rail.store = under(fmt::format("rail/{}/", place.local));
    parts.rail = maker.make(rail, parts.link);
  }
  log_schedule(parts);
  return std::make_unique<Spanning>(std::move(parts));
}

}  // namespace unisono::backends

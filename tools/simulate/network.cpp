// The links of a network, and the way of a message over them. Ways are minimal; parallel links count as one with their common bandwidth, as if the
// messages were spread evenly over them.

#include "simulate/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/error.h"

namespace unisono::simulate {
namespace {

constexpr std::int64_t most_flat_hosts = 1'000'000;

int divided_up(std::int64_t count, std::int64_t by) { return static_cast<int>((count + by - 1) / by); }
int modulo(int number, int by) { return (number % by + by) % by; }
int divided_down(int number, int by) { return (number - modulo(number, by)) / by; }

constexpr double exactly_followed = 128, followed_part = 1.0 / 64;
constexpr double no_time = 1e-9;  // microseconds

}  // namespace

int Network::hosts_of_leaf(const NetworkOptions& options) {
  if (options.topology == Topology::dragonfly_plus) return options.ports / 2;
  return std::clamp(static_cast<int>(std::lround(options.ports * options.oversubscription / (1 + options.oversubscription))), 1, options.ports - 1);
}

std::int64_t Network::most_hosts(const NetworkOptions& options) {
  const std::int64_t ports = options.ports, half = ports / 2, leaf = hosts_of_leaf(options);
  switch (options.topology) {
    case Topology::flat: return most_flat_hosts;
    case Topology::fat_tree: return leaf * half * ports;                         // three levels: pods of `half` leaves, `ports` pods
    case Topology::dragonfly_plus: return half * half * (half * half + 1);       // a link between each two groups
    case Topology::rail_optimised: return leaf * (half * ports / options.nics);  // the same three levels, with a leaf for each rail
  }
  return 0;
}

int Network::period(const NetworkOptions& options) {
  if (options.topology == Topology::flat) return 1;
  const int leaf = hosts_of_leaf(options);
  if (options.hosts <= leaf) return 1;
  return options.topology == Topology::dragonfly_plus ? leaf * options.ports / 2 : leaf;
}

Network::Network(const NetworkOptions& options, const Parameters& parameters, bool is_folded)
    : options_(options),
      hosts_(is_folded ? period(options) : options.hosts),
      is_folded_(is_folded),
      burst_bytes_(parameters.link_burst_bytes),
      leaf_hosts_(hosts_of_leaf(options)) {
  if (options.hosts > most_hosts(options)) {
    throw InvalidArgument(fmt::format("a {} of switches with {} ports connects at most {} hosts, and the ranks are on {}",
                                      topology_names[static_cast<std::size_t>(options.topology)], options.ports, most_hosts(options), options.hosts),
                          {.hint = "more ports, or more ranks for each host"});
  }
  const double port = parameters.bytes_per_us();
  const double leaf = leaf_hosts_ * port / options.oversubscription;
  add("host up", hosts_ * options.nics, port);
  add("host down", hosts_ * options.nics, port);
  if (options.topology == Topology::flat) return;
  const int leaves = divided_up(hosts_, leaf_hosts_) * (options.topology == Topology::rail_optimised ? options.nics : 1);
  add("leaf up", leaves, leaf);
  add("leaf down", leaves, leaf);
  if (options.topology == Topology::dragonfly_plus) {
    groups_ = divided_up(options.hosts, hosts_per_group());
    const int spines = options.ports / 2, links = spines * spines;
    const double each = groups_ > 1 ? std::max(1.0, static_cast<double>(links) / (groups_ - 1)) : 1;
    add("global", is_folded ? groups_ : groups_ * groups_, each * port);
  }
  if (options.dead) kill(*options.dead);
}

void Network::add(std::string_view name, int count, double bytes_per_us) {
  levels_.push_back({name, static_cast<int>(capacities_.size()), count, bytes_per_us});
  capacities_.insert(capacities_.end(), static_cast<std::size_t>(count), bytes_per_us);
}

void Network::kill(const DeadLink& dead) {
  if (dead.where == DeadLink::Where::host) return;  // nic_of looks for another port
  const Kind kind = dead.where == DeadLink::Where::leaf ? leaf_up : global;
  if (static_cast<std::size_t>(kind) >= levels_.size()) return;
  const double port = levels_[host_up].bytes_per_us;
  const auto weaken = [&](int level, int number) {
    const int link = levels_[static_cast<std::size_t>(level)].first + number;
    double& capacity = capacities_[static_cast<std::size_t>(link)];
    capacity = std::max(capacity - port, 0.0);
  };
  if (kind == leaf_up) {
    weaken(leaf_up, dead.number);
    weaken(leaf_down, dead.number);
    return;
  }
  const int other = (dead.number + 1) % groups_;
  weaken(global, dead.number * groups_ + other);
  weaken(global, other * groups_ + dead.number);
}

int Network::hosts_per_group() const { return leaf_hosts_ * options_.ports / 2; }
int Network::group_of(int host) const { return divided_down(host, hosts_per_group()); }
int Network::leaf_of(int host, int nic) const {
  const int leaf = options_.hosts <= leaf_hosts_ ? 0 : divided_down(host, leaf_hosts_);
  return options_.topology == Topology::rail_optimised ? leaf * options_.nics + nic : leaf;
}

void Network::join(Path& path, Kind kind, int index) const {
  const LinkLevel& level = levels_[kind];
  const int link = level.first + modulo(index, level.count);
  path.is_cut = path.is_cut || capacities_[static_cast<std::size_t>(link)] <= 0;
  path.links[static_cast<std::size_t>(path.count++)] = link;
}

/// Returns the port that a message uses instead of a dead one.
int Network::nic_of(int host, int nic, Path& path) const {
  const bool is_dead = options_.dead && options_.dead->where == DeadLink::Where::host && options_.dead->number == host && nic == 0;
  if (!is_dead) return nic;
  if (options_.nics == 1) path.is_cut = true;
  return (nic + 1) % options_.nics;
}

Path Network::path(int from, int from_nic, int to, int to_nic) const {
  Path path;
  from_nic = nic_of(from, from_nic, path);
  to_nic = nic_of(to, to_nic, path);
  join(path, host_up, from * options_.nics + from_nic);
  if (options_.topology != Topology::flat && leaf_of(from, from_nic) != leaf_of(to, to_nic)) {
    constexpr int two_levels = 3, three_levels = 5;
    path.switches = options_.hosts > leaf_hosts_ * options_.ports ? three_levels : two_levels;
    join(path, leaf_up, leaf_of(from, from_nic));
    if (options_.topology == Topology::dragonfly_plus) {
      const int source = group_of(from), target = group_of(to);
      path.switches = source == target ? two_levels : two_levels + 1;
      if (source != target) join(path, global, is_folded_ ? modulo(target - source, groups_) : source * groups_ + target);
    }
    join(path, leaf_down, leaf_of(to, to_nic));
  }
  join(path, host_down, to * options_.nics + to_nic);
  return path;
}

Flows::Flows(const Network& network) : most_burst_(network.burst_bytes()), links_(static_cast<std::size_t>(network.links())) {
  for (std::size_t l = 0; l < links_.size(); ++l) {
    links_[l].capacity = network.bytes_per_us(static_cast<int>(l));
    links_[l].burst = most_burst_;
  }
}

/// Returns how many of the bytes all links of a way let pass at once. The buckets are filled again while their links rest.
double Flows::take_burst(double now, const Path& path, double bytes) {
  if (most_burst_ <= 0) return 0;
  double free = bytes;
  for (int i = 0; i < path.count; ++i) {
    Link& link = links_[static_cast<std::size_t>(path.links[static_cast<std::size_t>(i)])];
    if (link.flows.empty()) {
      link.burst = std::min(most_burst_, link.burst + link.capacity * (now - link.rested_since));
      link.rested_since = now;
    }
    free = std::min(free, link.burst);
  }
  for (int i = 0; i < path.count; ++i) links_[static_cast<std::size_t>(path.links[static_cast<std::size_t>(i)])].burst -= free;
  return path.count == 0 ? 0 : free;
}

void Flows::touch(int link) {
  Link& touched = links_[static_cast<std::size_t>(link)];
  const double change = std::abs(touched.weight - touched.used_weight);
  if (touched.is_dirty || (touched.used_weight > exactly_followed && change < touched.used_weight * followed_part)) return;
  touched.is_dirty = true;
  dirty_.push_back(link);
}

void Flows::start(double now, const Path& path, double bytes, double weight, double most, std::uint64_t tag) {
  auto place = static_cast<std::uint32_t>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  const double free = take_burst(now, path, bytes);
  Flow& flow = flows_[place];
  const std::uint32_t generation = flow.generation;
  flow = {.path = path, .weight = weight, .remaining = bytes - free, .most = most, .since = now, .tag = tag, .generation = generation};
  flow.noted = std::numeric_limits<double>::infinity();
  for (int i = 0; i < path.count; ++i) {
    const int link = path.links[static_cast<std::size_t>(i)];
    Link& used = links_[static_cast<std::size_t>(link)];
    used.weight += weight;
    used.bytes += bytes;
    flow.places[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(used.flows.size());
    used.flows.push_back(place);
    touch(link);
  }
  flow.free = free;
  flow.remaining_at_begin = bytes - free;
  flow.begun = now;
  fresh_.push_back(place);
}

void Flows::adjust(std::uint32_t place, double now) {
  Flow& flow = flows_[place];
  double rate = flow.most;
  for (int i = 0; i < flow.path.count; ++i) {
    const Link& link = links_[static_cast<std::size_t>(flow.path.links[static_cast<std::size_t>(i)])];
    rate = std::min(rate, link.capacity * flow.weight / std::max(link.used_weight, flow.weight));
  }
  if (rate == flow.rate) return;
  flow.remaining = std::max(flow.remaining - flow.rate * (now - flow.since), 0.0);
  flow.since = now;
  flow.rate = rate;
  // What passes at once still takes the time of a message that is alone on its way.
  flow.end = std::max(now + flow.remaining / rate, flow.begun + (flow.free + flow.remaining_at_begin) / flow.most);
  if (flow.end >= flow.noted) return;  // the queue tells earlier, and is corrected then
  flow.noted = flow.end;
  ends_.push({flow.end, place, flow.generation});
}

void Flows::settle(double now) {
  for (const int link : dirty_) links_[static_cast<std::size_t>(link)].used_weight = links_[static_cast<std::size_t>(link)].weight;
  for (const int link : dirty_) {
    Link& changed = links_[static_cast<std::size_t>(link)];
    changed.is_dirty = false;
    for (const std::uint32_t flow : changed.flows) adjust(flow, now);
  }
  dirty_.clear();
  for (const std::uint32_t flow : fresh_) adjust(flow, now);
  fresh_.clear();
}

/// Takes a flow out of a link's list; the last one gets its place.
void Flows::remove(Link& link, std::uint32_t at, int number) {
  const std::uint32_t moved = link.flows.back();
  link.flows[at] = moved;
  link.flows.pop_back();
  Flow& flow = flows_[moved];
  for (int i = 0; i < flow.path.count; ++i) {
    if (flow.path.links[static_cast<std::size_t>(i)] == number) flow.places[static_cast<std::size_t>(i)] = at;
  }
}

bool Flows::end_next(double now, std::uint64_t& tag) {
  const End next = ends_.top();
  ends_.pop();
  Flow& flow = flows_[next.flow];
  if (flow.generation != next.generation) return false;
  if (flow.end > now + no_time) {
    if (next.time <= flow.noted) {
      flow.noted = flow.end;
      ends_.push({flow.end, next.flow, flow.generation});
    }
    return false;
  }
  tag = flow.tag;
  ++flow.generation;
  for (int i = 0; i < flow.path.count; ++i) {
    const int number = flow.path.links[static_cast<std::size_t>(i)];
    Link& link = links_[static_cast<std::size_t>(number)];
    link.weight -= flow.weight;
    link.rested_since = now;
    remove(link, flow.places[static_cast<std::size_t>(i)], number);
    touch(number);
  }
  free_.push_back(next.flow);
  return true;
}

}  // namespace unisono::simulate

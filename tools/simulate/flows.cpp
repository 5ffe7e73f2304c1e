#include "simulate/flows.h"

#include <algorithm>
#include <cmath>

namespace unisono::simulate {
namespace {

constexpr double exactly_followed = 128, followed_part = 1.0 / 64;
constexpr double no_time = 1e-9;  // microseconds

}  // namespace

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

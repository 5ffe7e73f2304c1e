#include "trace/job_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace unisono::tools {
namespace {

std::uint64_t real_shift(const TracedRank& rank) { return rank.about.real_at_began - rank.about.began; }

/// Returns what tells a rank's host from others. Hosts are numbered anew in each generation: a process that came later is where those before it were.
std::pair<std::string, int> host_of(const JobTrace& trace, const TracedRank& rank) {
  if (rank.restarts == 0) return {rank.about.host, rank.about.node};
  const auto of_start = [&](const TracedRank& other) { return other.restarts == 0 && other.place == rank.place; };
  const auto beside = [&](const TracedRank& other) {
    constexpr unsigned namespace_bits = 32;
    return other.about.host == rank.about.host && other.about.life >> namespace_bits == rank.about.life >> namespace_bits;
  };
  auto same = std::ranges::find_if(trace.ranks, of_start);
  if (same == trace.ranks.end()) same = std::ranges::find_if(trace.ranks, [&](const auto& other) { return other.restarts == 0 && beside(other); });
  if (same == trace.ranks.end()) same = std::ranges::find_if(trace.ranks, beside);
  return {same->about.host, same->about.node};
}

/// Gives each process its name and number.
void name_ranks(JobTrace& trace) {
  std::int64_t highest = 0;
  for (const TracedRank& rank : trace.ranks) highest = std::max({highest, std::int64_t{rank.place}, std::int64_t{rank.about.size} - 1});
  const std::int64_t most = std::numeric_limits<int>::max() - static_cast<std::int64_t>(trace.ranks.size());
  int next = static_cast<int>(std::min(highest + 1, most));
  for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
    TracedRank& rank = trace.ranks[i];
    rank.number = rank.restarts == 0 ? rank.place : next++;
    rank.name = rank.restarts == 0 ? fmt::format("{}", rank.place) : fmt::format("{}.{}", rank.place, rank.restarts);
    rank.groups = rank.reader->groups();
    trace.indices.emplace(rank.number, i);
    for (const recorder::GroupSeen& group : rank.groups) {
      if (group.generation > 1) trace.numbers.try_emplace({group.generation, group.own_rank}, rank.number);
    }
  }
}

}  // namespace

std::int64_t whole_ns(double ns) {
  constexpr double most = 9.2e18;
  return std::isnan(ns) ? 0 : static_cast<std::int64_t>(std::clamp(ns, -most, most));
}

std::int64_t HostClock::shift_at(std::uint64_t steady) const {
  const auto after = std::ranges::upper_bound(knots, steady, {}, &Knot::at);
  if (after == knots.begin()) return knots.front().shift;
  const Knot& before = *std::prev(after);
  if (after == knots.end()) return before.shift;
  const double part = static_cast<double>(steady - before.at) / static_cast<double>(after->at - before.at);
  const double change = static_cast<double>(after->shift) - static_cast<double>(before.shift);
  return wrapped(static_cast<std::uint64_t>(before.shift) + static_cast<std::uint64_t>(whole_ns(part * change)));
}

std::uint64_t JobTrace::time_of(const TracedRank& rank, std::uint64_t steady) const {
  const std::int64_t time = wrapped(steady + static_cast<std::uint64_t>(clocks[rank.host].shift_at(steady)) - origin);
  return time < 0 ? 0 : static_cast<std::uint64_t>(time);
}

const TracedRank* JobTrace::find(int number) const {
  const auto found = indices.find(number);
  return found == indices.end() ? nullptr : &ranks[found->second];
}

const TracedRank* JobTrace::last_of(int place) const {
  const auto behind = std::ranges::upper_bound(ranks, place, {}, &TracedRank::place);
  return behind == ranks.begin() || std::prev(behind)->place != place ? nullptr : &*std::prev(behind);
}

// In the first generation the ranks are the places.
int JobTrace::number_of(int generation, int rank) const {
  if (generation <= 1 || rank < 0) return rank;
  const auto found = numbers.find({generation, rank});
  return found == numbers.end() ? -1 : found->second;
}

std::string JobTrace::name_of(int number) const {
  const TracedRank* const rank = find(number);
  return rank == nullptr ? std::to_string(number) : rank->name;
}

int JobTrace::places() const {
  int places = 0, last = -1;
  for (const TracedRank& rank : ranks) {
    if (places == 0 || rank.place != last) ++places;
    last = rank.place;
  }
  return places;
}

// Of more groups than a trace names it has the first ones.
int TracedRank::generation_of(std::uint16_t group) const {
  const auto behind = std::ranges::upper_bound(groups, group, {}, &recorder::GroupSeen::number);
  return behind == groups.begin() ? 0 : std::prev(behind)->generation;
}

int TracedRank::rank_in(int generation) const {
  if (generation == 0) return about.rank;
  if (generation == 1) return restarts == 0 ? about.rank : -1;
  const auto found = std::ranges::find(groups, generation, &recorder::GroupSeen::generation);
  return found == groups.end() ? -1 : found->own_rank;
}

void set_origin(JobTrace& trace) {
  trace.origin = 0;
  std::uint64_t origin = UINT64_MAX, end = 0;
  for (TracedRank& rank : trace.ranks) {
    std::uint64_t first = UINT64_MAX, last = std::max(rank.about.now, rank.about.began);
    rank.reader->each([&](const recorder::TracedCall& call) {
      first = std::min(first, call.begun);
      last = std::max({last, call.done, call.begun});
    });
    // What a rank did before the first call that is left is not known.
    rank.from = trace.time_of(rank, rank.reader->lost() == 0 || first == UINT64_MAX ? rank.about.began : first);
    rank.to = trace.time_of(rank, last);
    origin = std::min(origin, rank.from);
    end = std::max(end, rank.to);
  }
  for (TracedRank& rank : trace.ranks) {
    rank.from -= origin;
    rank.to -= origin;
  }
  trace.origin = origin;
  trace.span = end - origin;
  const recorder::RankSeen& reference = trace.ranks.front().about;
  trace.real_origin = reference.real_at_began + (origin - reference.began);
}

JobTrace open_traces(const std::string& folder, const std::string& job) {
  JobTrace trace;
  trace.ranks = read_ranks(folder, job);
  name_ranks(trace);
  const TracedRank& first = trace.ranks.front();
  trace.name = first.about.job;
  trace.program = first.about.program;
  std::map<std::pair<std::string, int>, std::size_t> hosts;
  for (TracedRank& rank : trace.ranks) {
    trace.size = std::max(trace.size, rank.about.size);
    trace.lost += rank.reader->lost();
    const auto [host, is_new] = hosts.try_emplace(host_of(trace, rank), trace.clocks.size());
    rank.host = host->second;
    if (is_new) trace.clocks.push_back({.host = rank.about.host, .knots = {{.at = 0, .shift = wrapped(real_shift(rank) - real_shift(first))}}});
  }
  trace.size = std::max(trace.size, trace.places());  // hosts may come and go, so that no world had all of them
  // On one host all ranks have one clock.
  trace.clocks.front().knots.front().shift = 0;
  trace.clocks.front().is_measured = true;
  set_origin(trace);
  return trace;
}

}  // namespace unisono::tools

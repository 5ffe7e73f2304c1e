// The clocks of several hosts. A call in which every rank waits for all others bounds the difference of two clocks from both sides: no rank of either
// host can end before the last rank of the other one has begun. Among many calls the closest bounds of a stretch of time count, so that the clocks
// may drift. The idea is that of A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating global time in distributed systems" (ICDCS 1987).

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "trace/merge.h"
#include "unisono/operation.h"

namespace unisono::tools {
namespace {

constexpr std::uint64_t most_sampled = 50'000;
constexpr std::uint64_t stretch_ns = 10'000'000'000;
constexpr std::uint64_t most_stretches = 64;

/// When the last rank of a host began a call, and when its first one ended it, on its own clock.
struct Visit {
  std::uint64_t begun = 0, done = UINT64_MAX;
  std::uint32_t ranks = 0;
};

/// The visits of all hosts to one call.
struct Sample {
  std::vector<Visit> hosts;
  std::uint32_t ranks = 0;
};

bool waits_for_all(const recorder::TracedCall& call) {
  const auto operation = static_cast<Operation>(call.operation);
  return operation == Operation::barrier || operation == Operation::all_reduce || operation == Operation::all_gather;
}

using Samples = std::map<MeetingPlace, Sample>;

Samples take_samples(const JobTrace& trace, const FindPlace& find_place) {
  std::uint64_t most_calls = 1;
  for (const TracedRank& rank : trace.ranks) most_calls = std::max(most_calls, rank.about.calls);
  const std::uint64_t stride = 1 + most_calls / most_sampled;
  Samples samples;
  for (const TracedRank& rank : trace.ranks) {
    const CallOrder order(*rank.reader);
    rank.reader->each([&](const recorder::TracedCall& call) {
      if (call.state != recorder::CallState::done || call.done == 0 || !is_collective(*rank.reader, call) || !waits_for_all(call)) return;
      const auto number = order.number(call);
      const auto place = number ? find_place(rank, call, *number) : std::nullopt;
      if (!place || place->number % stride != 0) return;
      Sample& sample = samples[*place];
      sample.hosts.resize(trace.clocks.size());
      ++sample.ranks;
      Visit& visit = sample.hosts[rank.host];
      visit.begun = std::max(visit.begun, call.queued != 0 ? call.queued : call.begun);
      visit.done = std::min(visit.done, call.done);
      ++visit.ranks;
    });
  }
  return samples;
}

/// The bounds of what is to be added to a host's clock, in a stretch of time.
struct Bounds {
  std::int64_t low = INT64_MIN, high = INT64_MAX;
  std::uint64_t first = UINT64_MAX, last = 0;  // of its own clock
};

void align(HostClock& clock, const std::map<std::uint64_t, Bounds>& stretches) {
  std::vector<HostClock::Knot> knots;
  std::uint64_t uncertainty = 0;
  for (const auto& [number, bounds] : stretches) {
    knots.push_back({.at = bounds.first + (bounds.last - bounds.first) / 2, .shift = std::midpoint(bounds.low, bounds.high)});
    // Where the clocks drift within a stretch, the bounds may cross.
    const auto [low, high] = std::minmax(bounds.low, bounds.high);
    uncertainty = std::max(uncertainty, (static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)) / 2);
  }
  if (knots.empty()) return;
  clock.knots = std::move(knots);
  clock.uncertainty_ns = uncertainty;
  clock.is_measured = true;
}

}  // namespace

void align_clocks(JobTrace& trace, const std::vector<TracedGroup>& groups, const FindPlace& find_place) {
  Samples samples = take_samples(trace, find_place);
  std::erase_if(samples, [&](const auto& each) { return each.second.ranks != groups[each.first.group].traced; });
  for (std::size_t host = 1; host < trace.clocks.size(); ++host) {
    // Hosts that come and go do not all take part in all calls.
    std::vector<const Sample*> of_both;
    std::uint64_t first = UINT64_MAX, last = 0;
    for (const auto& [place, sample] : samples) {
      if (sample.hosts.front().ranks == 0 || sample.hosts[host].ranks == 0) continue;
      of_both.push_back(&sample);
      first = std::min(first, sample.hosts[host].begun);
      last = std::max(last, sample.hosts[host].begun);
    }
    if (of_both.empty()) continue;
    const std::uint64_t stretch = std::max(stretch_ns, (last - first) / most_stretches + 1);
    std::map<std::uint64_t, Bounds> stretches;
    for (const Sample* const sample : of_both) {
      const Visit& here = sample->hosts[host];
      const Visit& there = sample->hosts.front();
      Bounds& bounds = stretches[(here.begun - first) / stretch];
      bounds.low = std::max(bounds.low, wrapped(there.begun - here.done));
      bounds.high = std::min(bounds.high, wrapped(there.done - here.begun));
      bounds.first = std::min(bounds.first, here.begun);
      bounds.last = std::max(bounds.last, here.begun);
    }
    align(trace.clocks[host], stretches);
  }
}

}  // namespace unisono::tools

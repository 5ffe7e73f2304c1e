#include "launch/job/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "launch/job/report.h"
#include "launch/view/waits.h"
#include "recorder/call_text.h"

namespace unisono::launcher {

std::string summary_of_ends(std::span<const RankEnd> ends, std::chrono::nanoseconds duration) {
  return fmt::format("the job took {}: {}", recorder::duration_text(static_cast<std::uint64_t>(duration.count())),
                     describe_others(ends, ends.size()));
}

void add_waits(std::vector<RankEnd>& ends, std::span<const recorder::RankSeen> records) {
  for (RankEnd& end : ends) {
    const auto record = std::ranges::find(records, end.pid, &recorder::RankSeen::pid);
    if (record == records.end() || record->calls == 0 || record->now <= record->began) continue;
    const double share = static_cast<double>(record->waited) / static_cast<double>(record->now - record->began);
    end.calls = record->calls;
    end.waited = static_cast<int>(std::lround(1000 * std::min(1.0, share)));
  }
}

// Ranks of which each is late now and then wait for sums of as many random times as there are calls, of the longest of as many times as there are
// ranks. Two such sums differ by half of what they are after 100 calls of two ranks, which seldom happens by chance.
std::vector<std::size_t> slowest_of(std::span<const double> waits, std::uint64_t calls) {
  constexpr double least_gap = 0.02, least_part = 0.1, most_part = 0.9, deviations = 5;
  std::vector<std::size_t> order(waits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return waits[i]; });
  const auto wait_at = [&](std::size_t place) { return waits[order[place]]; };
  // They are separated from the others by the widest gap, and are not more than these.
  std::size_t few = 0;
  for (std::size_t i = 1; 2 * i <= order.size(); ++i) {
    if (few == 0 || wait_at(i) - wait_at(i - 1) > wait_at(few) - wait_at(few - 1)) few = i;
  }
  if (few == 0) return {};
  double others = 0;
  for (std::size_t i = few; i < order.size(); ++i) others += wait_at(i);
  others /= static_cast<double>(order.size() - few);
  const double noise =
      deviations / std::sqrt(static_cast<double>(std::max<std::uint64_t>(calls, 1))) / (1 + std::log(static_cast<double>(order.size()) / 2));
  const bool is_apart = wait_at(few) - wait_at(few - 1) >= least_gap;
  if (!is_apart || others - wait_at(few - 1) < others * std::clamp(noise, least_part, most_part)) return {};
  order.resize(few);
  std::ranges::sort(order);
  return order;
}

std::string summary_of_waits(std::span<const RankEnd> ends) {
  constexpr double told = 0.01, per_share = 0.001;
  std::vector<double> waits;
  std::vector<int> ranks;
  std::uint64_t calls = UINT64_MAX;
  for (const RankEnd& end : ends) {
    if (end.waited < 0) continue;
    if (end.calls != 0) calls = std::min(calls, end.calls);
    waits.push_back(per_share * end.waited);
    ranks.push_back(end.rank);
  }
  if (waits.size() < 2) return {};
  const auto [least, most] = std::ranges::minmax(waits);
  if (most < told) return "no rank waited for the others for more than 1 % of its time";
  const auto found = slowest_of(waits, calls);
  if (found.empty())
    return fmt::format("no rank stands out: they waited for each other for {:.1f} to {:.1f} % of their time", 100 * least, 100 * most);
  std::vector<int> slowest;
  for (const std::size_t i : found) slowest.push_back(ranks[i]);
  std::ranges::sort(slowest);
  double longest = 0;  // of theirs
  for (const std::size_t i : found) longest = std::max(longest, waits[i]);
  const bool is_one = slowest.size() == 1;
  return fmt::format("{} waited for the others for {}{:.0f} % of {} time, the least of all, and rank {} for {:.0f} %, the most", ranks_text(slowest),
                     is_one ? "" : "at most ", 100 * longest, is_one ? "its" : "their",
                     ranks[static_cast<std::size_t>(std::ranges::max_element(waits) - waits.begin())], 100 * most);
}

}  // namespace unisono::launcher

#include "launch/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launch/rank_facts.h"
#include "launch/report.h"

namespace unisono::launcher {
namespace {

/// Returns the share of the time since a rank joined in which it has waited for others.
double waiting_share(const recorder::RankSeen& rank) {
  const std::uint64_t lived = rank.now - std::min(rank.now, rank.began);
  return lived == 0 ? 0 : std::min(1.0, static_cast<double>(rank.waited) / static_cast<double>(lived));
}

}  // namespace

std::string summary_of_ends(std::span<const RankEnd> ends, std::chrono::nanoseconds duration) {
  return fmt::format("the job took {}: {}", duration_text(static_cast<std::uint64_t>(duration.count())), describe_others(ends, ends.size()));
}

std::string summary_of_waits(std::span<const recorder::RankSeen> records) {
  constexpr double told = 0.01;
  std::vector<std::pair<double, int>> shares;
  for (const recorder::RankSeen& record : records) {
    if (record.rank >= 0 && record.calls > 0) shares.emplace_back(waiting_share(record), record.rank);
  }
  if (shares.size() < 2) return {};
  const auto [least, most] = std::ranges::minmax(shares);
  if (most.first < told) return "no rank waited for the others for more than 1 % of its time";
  return fmt::format("rank {} waited for the others for {:.0f} % of its time, the least of all, and rank {} for {:.0f} %, the most", least.second,
                     100 * least.first, most.second, 100 * most.first);
}

}  // namespace unisono::launcher

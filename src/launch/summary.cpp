#include "launch/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launch/report.h"

namespace unisono::launcher {
namespace {

/// Returns the share of the time since a rank joined in which it has waited for others.
double waiting_share(const recorder::RankSeen& rank) {
  const std::uint64_t lived = rank.now - std::min(rank.now, rank.began);
  return lived == 0 ? 0 : std::min(1.0, static_cast<double>(rank.waited) / static_cast<double>(lived));
}

std::string duration_text(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  constexpr double minute = 60;
  if (seconds < minute) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(seconds);
  constexpr long hour = 3600;
  return whole < hour ? fmt::format("{} min {} s", whole / 60, whole % 60) : fmt::format("{} h {} min", whole / hour, whole / 60 % 60);
}

}  // namespace

std::string summary_of_ends(std::span<const RankEnd> ends, std::chrono::nanoseconds duration) {
  return fmt::format("the job took {}: {}", duration_text(duration), describe_others(ends, ends.size()));
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

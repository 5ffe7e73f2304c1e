#include "launch/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launch/report.h"
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
    end.waited = static_cast<int>(std::lround(1000 * std::min(1.0, share)));
  }
}

std::string summary_of_waits(std::span<const RankEnd> ends) {
  constexpr int told = 10;
  std::vector<std::pair<int, int>> waits;
  for (const RankEnd& end : ends) {
    if (end.waited >= 0) waits.emplace_back(end.waited, end.rank);
  }
  if (waits.size() < 2) return {};
  const auto [least, most] = std::ranges::minmax(waits);
  if (most.first < told) return "no rank waited for the others for more than 1 % of its time";
  return fmt::format("rank {} waited for the others for {:.0f} % of its time, the least of all, and rank {} for {:.0f} %, the most", least.second,
                     0.1 * least.first, most.second, 0.1 * most.first);
}

}  // namespace unisono::launcher

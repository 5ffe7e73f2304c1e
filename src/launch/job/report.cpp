#include "launch/job/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <numeric>
#include <utility>
#include <vector>

#include "base/host.h"
#include "launch/process/signals.h"
#include "launch/view/standstill.h"
#include "recorder/call_text.h"

namespace unisono::launcher {
namespace {

std::string fate(const RankEnd& end) {
  if (end.how == RankEnd::How::running) return end.describe();
  if (end.ended_by_launcher && end.how == RankEnd::How::signaled) return "ended by the launcher (" + signal_name(end.code) + ")";
  std::string text = end.describe();
  if (const auto culprit = blamed_rank(end); culprit && *culprit != end.rank) text += ", blaming rank " + std::to_string(*culprit);
  return text;
}

}  // namespace

std::string describe_others(std::span<const RankEnd> ends, std::size_t cause) {
  std::vector<std::pair<std::string, std::vector<int>>> fates;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == cause) continue;
    const std::string text = fate(ends[i]);
    auto found = std::find_if(fates.begin(), fates.end(), [&](const auto& entry) { return entry.first == text; });
    if (found == fates.end()) found = fates.insert(fates.end(), {text, {}});
    found->second.push_back(ends[i].rank);
  }
  std::string line;
  for (const auto& [text, ranks] : fates) {
    if (!line.empty()) line += "; ";
    line += name_ranks(ranks) + " " + text;
  }
  return line;
}

std::string hint_of(const RankEnd& end) {
  if (end.how != RankEnd::How::signaled || end.code != SIGKILL || end.ended_by_launcher) return {};
  if (end.out_of_memory) return "the kernel has killed it: memory ran out (oom_kill of its cgroup)";
  return "SIGKILL comes from outside: kill -9, a batch system, no memory (dmesg)";
}

std::string said_of(std::span<const RankEnd> ends, int rank) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (end.rank != rank && blamed_rank(end) == rank && (first == nullptr || end.order < first->order)) first = &end;
  }
  return first == nullptr ? std::string() : text_of_failure(*first);
}

namespace {

std::string who(const RankEnd& end) {
  return "rank " + std::to_string(end.rank) + " (pid " + std::to_string(end.pid) + " on " + (end.host.empty() ? base::host_name() : end.host) + ")";
}

/// Returns the reason that a rank itself has given for its end: "ended with std::runtime_error: no such file". Empty: none.
std::string own_reason(std::span<const RankEnd> ends, const RankEnd& end) {
  if (const auto mismatch = fatal_mismatch(ends); mismatch && mismatch->culprit == end.rank) return mismatch->text;
  if (blamed_rank(end) != end.rank) return {};
  std::string text = text_of_failure(end);
  const std::string name = "rank " + std::to_string(end.rank) + " ";
  return text.starts_with(name) ? text.substr(name.size()) : text;
}

/// Returns the sentence about the first cause.
std::string verdict(std::span<const RankEnd> ends, std::size_t cause) {
  const RankEnd& first = ends[cause];
  if (is_only_named(first)) {
    const std::string said = said_of(ends, first.rank);
    if (!said.empty()) return who(first) + ": " + said;
  }
  const std::string reason = own_reason(ends, first);
  return who(first) + " " + first.describe() + (reason.empty() ? "" : ": " + reason);
}

/// Returns why the job has ended where no rank is to blame: the ranks called different things, or waited for each other. Empty: a rank is.
std::string nobodys_fault(std::span<const RankEnd> ends, std::size_t cause) {
  if (const auto mismatch = fatal_mismatch(ends); mismatch && mismatch->culprit < 0) return mismatch->text;
  return is_consequence(ends[cause]) && !blamed_rank(ends[cause]) ? text_of_failure(ends[cause]) : std::string();
}

}  // namespace

void report_failure(Console& console, std::span<const RankEnd> ends, std::size_t cause, const std::deque<std::string>& last_lines) {
  // The most important line comes last, where the user looks first.
  if (const std::string text = nobodys_fault(ends, cause); !text.empty()) {
    console.say("the ranks: " + describe_others(ends, ends.size()));
    console.shout("first cause: " + text);
    return;
  }
  const RankEnd& first = ends[cause];
  const bool alone = ends.size() == 1;                                                    // its output stands right above
  const bool reader_left = first.how == RankEnd::How::signaled && first.code == SIGPIPE;  // the rank has printed nothing about that
  if (!alone && !last_lines.empty() && !reader_left) {
    console.say("last lines of rank " + std::to_string(first.rank) + ":");
    for (const auto& text : last_lines) console.quote(text);
  }
  if (!alone) console.say((ends.size() == 2 ? "the other: " : "the others: ") + describe_others(ends, cause));
  if (const std::string hint = hint_of(first); !hint.empty()) console.say("hint: " + hint);
  console.shout("first cause: " + verdict(ends, cause));
}

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

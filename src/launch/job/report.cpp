#include "launch/job/report.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include "base/host.h"
#include "launch/process/signals.h"

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

}  // namespace unisono::launcher

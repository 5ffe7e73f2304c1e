#include "launch/api/spawn_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/host.h"
#include "launch/job/report.h"
#include "launch/process/signals.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// Returns the words that follow a rank's number.
std::string fate(const ProcessEnd& end) {
  if (!end.error_type.empty()) return fmt::format("threw {}{}{}", end.error_type, end.message.empty() ? "" : ": ", end.message);
  if (!end.signal.empty()) return fmt::format("was ended by {}", end.signal);
  if (!end.exit_code) return "ended before its function returned (how is not known: this process takes its children's ends itself)";
  return fmt::format("exited with code {} before its function returned", *end.exit_code);
}

ProcessEnd describe(const RankEnd& end, const Outcome& outcome) {
  ProcessEnd described{.rank = end.rank, .failed = !outcome.has_result()};
  if (end.how == RankEnd::How::signaled) described.signal = signal_name(end.code);
  if (end.how == RankEnd::How::exited && !end.is_taken) described.exit_code = end.code;
  const auto thrown = outcome.error();
  if (thrown) {
    described.error_type = thrown->type;
    described.message = thrown->message;
  }
  // A rank that throws something other than PeerFailed has a reason of its own, even after another rank's failure.
  described.is_consequence = described.failed && (end.ended_by_launcher || (thrown ? thrown->of_peer : is_consequence(end)));
  return described;
}

/// Returns the rank that failed first. The ranks' exceptions add to what the launcher has seen.
std::size_t cause_of(const JobResult& result, std::span<const Outcome> outcomes) {
  std::vector<RankEnd> ends = result.ends;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    RankEnd& end = ends[i];
    const auto thrown = outcomes[i].error();
    // A rank without a status failed while the ranks were meeting.
    if (thrown && thrown->of_peer && end.status.empty()) end.status = fmt::format("poisoned {} ", thrown->culprit);
    if (!outcomes[i].has_result() && !end.failed()) end.left_without_finalize = true;
  }
  if (const auto first = first_cause(ends)) return *first;
  const auto failed = std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) { return !outcome.has_result(); });
  return static_cast<std::size_t>(failed - outcomes.begin());
}

}  // namespace

void throw_if_failed(const JobResult& result, std::span<const Outcome> outcomes) {
  std::vector<ProcessEnd> ends;
  for (std::size_t i = 0; i < outcomes.size(); ++i) ends.push_back(describe(result.ends[i], outcomes[i]));
  if (std::none_of(ends.begin(), ends.end(), [](const ProcessEnd& end) { return end.failed; })) return;

  const std::size_t cause = cause_of(result, outcomes);
  ends[cause].is_consequence = false;
  // A rank that hung, or left early, has nothing to say by itself.
  const std::string said = outcomes[cause].error() || !is_only_named(result.ends[cause]) ? std::string() : said_of(result.ends, ends[cause].rank);
  std::string message = fmt::format("rank {}{} {}", ends[cause].rank, said.empty() ? "" : ":", said.empty() ? fate(ends[cause]) : said);
  std::vector<int> consequences;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == cause || !ends[i].failed) continue;
    if (ends[i].is_consequence) consequences.push_back(ends[i].rank);
    else message += fmt::format("; rank {} {}", ends[i].rank, fate(ends[i]));
  }
  if (!consequences.empty()) {
    message += fmt::format("; {} {} ended as a consequence", name_ranks(consequences), consequences.size() == 1 ? "was" : "were");
  }
  const int culprit = ends[cause].rank;
  throw LaunchFailed(message, {.operation = "spawn", .culprit = culprit, .host = base::host_name()}, std::move(ends));
}

}  // namespace unisono::launcher

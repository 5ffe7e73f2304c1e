#include "launch/process/first_cause.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "launch/process/program.h"
#include "launch/process/signals.h"

namespace unisono::launcher {

using How = RankEnd::How;

int RankEnd::exit_code() const {
  if (how == How::signaled) return exit_signaled + code;
  if (how == How::exited && left_without_finalize) return 1;
  return how == How::exited ? code : 0;
}

std::string RankEnd::describe() const {
  if (how == How::running) return "is still running (pid " + std::to_string(pid) + ")";
  if (how == How::signaled) {
    return "ended by " + signal_name(code) + (dumped_core ? " (core dumped)" : out_of_memory ? " (out of memory)" : "");
  }
  if (left_without_finalize) return "left without finalize (exit code 0)";
  return "exited with code " + std::to_string(code);
}

namespace {

/// Reads "KIND NUMBER… TEXT". Returns nothing for a status of another kind.
template <class... Numbers>
std::optional<std::string> read_status(const RankEnd& end, std::string_view kind, Numbers&... numbers) {
  std::istringstream fields(end.status);
  std::string word, text;
  if (!(fields >> word) || word != kind || !(fields >> ... >> numbers)) return std::nullopt;
  fields.get();
  std::getline(fields, text, '\0');
  return text;
}

}  // namespace

std::optional<int> blamed_rank(const RankEnd& end) {
  int culprit = 0;  // -1: a connection was cut, and both of its ends live
  return read_status(end, "poisoned", culprit) && culprit >= 0 ? std::optional(culprit) : std::nullopt;
}

std::string text_of_failure(const RankEnd& end) {
  int culprit = 0;
  return read_status(end, "poisoned", culprit).value_or("");
}

bool is_consequence(const RankEnd& end) {
  if (!end.status.starts_with("poisoned")) return false;
  return blamed_rank(end) != end.rank;  // a rank that gives up by itself blames itself
}

std::optional<MismatchSeen> mismatch_of(const RankEnd& end) {
  MismatchSeen seen;
  const auto text = read_status(end, "mismatch", seen.culprit, seen.ranks);
  if (!text) return std::nullopt;
  seen.text = text->substr(0, text->find('\n'));
  return seen;
}

std::optional<MismatchSeen> fatal_mismatch(std::span<const RankEnd> ends) {
  std::optional<MismatchSeen> most;
  for (const auto& end : ends) {
    // An exception that nobody catches ends the process by SIGABRT.
    if (!end.failed() || end.ended_by_launcher || (end.how == How::signaled && end.code != SIGABRT)) continue;
    const auto seen = mismatch_of(end);
    if (seen && (!most || seen->ranks > most->ranks)) most = seen;
  }
  if (!most || most->culprit < 0) return most;
  // A culprit that had gone on would have another status by now.
  const auto culprit = std::ranges::find(ends, most->culprit, &RankEnd::rank);
  return culprit != ends.end() && culprit->failed() && mismatch_of(*culprit) ? most : std::nullopt;
}

namespace {

using Votes = std::map<int, int>;  // by rank: how many others name it as the culprit

Votes votes_of(std::span<const RankEnd> ends) {
  Votes votes;
  for (const auto& end : ends) {
    if (const auto culprit = blamed_rank(end); culprit && *culprit != end.rank) ++votes[*culprit];
  }
  return votes;
}

/// Returns the rank that the others name most. Where that one names another, the cause lies further on; a circle has none.
std::optional<std::size_t> named_by_others(std::span<const RankEnd> ends, const Votes& votes) {
  if (votes.empty()) return std::nullopt;
  int rank = std::ranges::max_element(votes, {}, [](const auto& entry) { return entry.second; })->first;
  for (std::size_t steps = 0; steps < ends.size(); ++steps) {
    const auto end = std::ranges::find(ends, rank, &RankEnd::rank);
    if (end == ends.end() || end->is_survived) return std::nullopt;
    if (!is_consequence(*end)) return static_cast<std::size_t>(end - ends.begin());
    const auto culprit = blamed_rank(*end);
    if (!culprit) return std::nullopt;
    rank = *culprit;
  }
  return std::nullopt;
}

/// Returns the rank that failed first by itself, or a consequence where there is nothing else.
std::optional<std::size_t> first_to_fail(std::span<const RankEnd> ends, const Votes& votes) {
  std::optional<std::size_t> best;
  std::tuple<bool, int, bool, int> best_key;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto& end = ends[i];
    if (!end.failed() || end.ended_by_launcher || end.is_survived) continue;
    const auto vote = votes.find(end.rank);
    // The smallest key is the cause.
    const std::tuple key(is_consequence(end), vote == votes.end() ? 0 : -vote->second, end.how != RankEnd::How::signaled, end.order);
    if (!best || key < best_key) {
      best = i;
      best_key = key;
    }
  }
  return best;
}

}  // namespace

std::optional<std::size_t> first_cause(std::span<const RankEnd> ends) {
  if (const auto mismatch = fatal_mismatch(ends); mismatch && mismatch->culprit >= 0) {
    const auto culprit = std::ranges::find(ends, mismatch->culprit, &RankEnd::rank);
    if (!culprit->ended_by_launcher) return static_cast<std::size_t>(culprit - ends.begin());
  }
  const Votes votes = votes_of(ends);
  const auto first = first_to_fail(ends, votes);
  if (!first || !is_consequence(ends[*first])) return first;
  const auto named = named_by_others(ends, votes);
  return named ? named : first;
}

int exit_code_of_job(std::span<const RankEnd> ends, std::size_t cause) {
  if (!is_only_named(ends[cause])) return ends[cause].exit_code();
  const auto first = first_to_fail(ends, votes_of(ends));
  return first ? ends[*first].exit_code() : 1;
}

std::optional<std::size_t> first_cause_of_elastic(std::span<const RankEnd> ends, int least_ranks, bool were_too_few) {
  if (!were_too_few && std::ranges::count_if(ends, &RankEnd::is_well) >= least_ranks) return std::nullopt;
  if (const auto cause = first_cause(ends)) return cause;
  std::vector<RankEnd> all(ends.begin(), ends.end());
  for (RankEnd& end : all) end.is_survived = false;
  return first_cause(all);
}

}  // namespace unisono::launcher

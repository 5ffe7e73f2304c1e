#include "launch/first_cause.h"

#include <charconv>
#include <map>
#include <tuple>

#include "launch/signals.h"

namespace unisono::launcher {

int RankEnd::exit_code() const {
  if (how == How::signaled) return 128 + code;
  if (how == How::exited && left_without_finalize) return 1;
  return how == How::exited ? code : 0;
}

std::string RankEnd::describe() const {
  if (how == How::running) return "is still running (pid " + std::to_string(pid) + ")";
  if (how == How::signaled) {
    return "ended by signal " + std::to_string(code) + " (" + signal_name(code) + (dumped_core ? ", core dumped" : "") + ")";
  }
  if (left_without_finalize) return "left without finalize (exit code 0)";
  return "exited with code " + std::to_string(code);
}

std::optional<int> blamed_rank(const RankEnd& end) {
  constexpr std::string_view word = "poisoned ";
  if (!end.status.starts_with(word)) return std::nullopt;
  int culprit = 0;
  const char* last = end.status.data() + end.status.size();
  if (std::from_chars(end.status.data() + word.size(), last, culprit).ec != std::errc()) return std::nullopt;
  return culprit;
}

bool is_consequence(const RankEnd& end) {
  if (!end.status.starts_with("poisoned")) return false;
  return blamed_rank(end) != end.rank;  // a rank that gave up itself names itself
}

std::optional<std::size_t> first_cause(std::span<const RankEnd> ends) {
  std::map<int, int> votes;
  for (const auto& end : ends) {
    if (const auto culprit = blamed_rank(end); culprit && *culprit != end.rank) ++votes[*culprit];
  }
  std::optional<std::size_t> best;
  std::tuple<bool, int, bool, int> best_key;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto& end = ends[i];
    if (!end.failed() || end.ended_by_launcher) continue;
    const auto vote = votes.find(end.rank);
    // Smaller is more to blame.
    const std::tuple key(is_consequence(end), vote == votes.end() ? 0 : -vote->second, end.how != RankEnd::How::signaled, end.order);
    if (!best || key < best_key) {
      best = i;
      best_key = key;
    }
  }
  return best;
}

}  // namespace unisono::launcher

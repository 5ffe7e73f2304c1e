#include "recorder/whereabouts.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/process.h"
#include "base/rank_list.h"
#include "recorder/call_text.h"
#include "unisono/message_info.h"

namespace unisono::recorder {

std::string tag_text(const CallSeen& call) {
  return !is_message(call.kind) || call.tag == 0 || call.tag == any_tag ? std::string() : fmt::format(", with tag {}", call.tag);
}

const CallSeen* wait_of(const RankSeen& rank) {
  const auto& recent = rank.recent;
  const auto waits = [](const CallSeen& call) { return call.state == CallState::waiting && call.waited_for >= 0; };
  auto found = std::ranges::find_if(recent, [&](const CallSeen& call) { return waits(call) && call.queued == 0; });
  if (found == recent.end() && rank.program_waits_since != 0) found = std::ranges::find_if(recent, waits);
  return found == recent.end() ? nullptr : &*found;
}

std::string circle_of_messages(int rank, const std::function<std::optional<CallSeen>(int rank)>& wait_of) {
  constexpr std::size_t most = 1024, most_told = 4;
  std::vector<std::pair<int, CallSeen>> circle;
  for (int next = rank; circle.empty() || next != rank;) {
    auto call = wait_of(next);
    const bool is_for_anybody = call && call->kind == Operation::recv && call->peer < 0;
    if (!call || !is_message(call->kind) || is_for_anybody || circle.size() == most) return {};
    const int other = call->waited_for;
    circle.emplace_back(next, std::move(*call));
    next = other;
  }
  if (circle.size() < 2) return {};
  std::vector<int> ranks;
  for (const auto& [each, call] : circle) ranks.push_back(each);
  std::ranges::sort(ranks);
  std::string text = base::name_ranks(ranks) + " wait for each other";
  for (std::size_t i = 0; i < std::min(circle.size(), most_told); ++i) {
    const auto& [each, call] = circle[i];
    text += fmt::format("{} rank {} is in {}{}, and waits for rank {}", i == 0 ? ":" : ";", each, placed_text(call), tag_text(call), call.waited_for);
  }
  if (circle.size() > most_told) text += "; and so on";
  const bool all_send = std::ranges::all_of(circle, [](const auto& one) { return one.second.kind == Operation::send; });
  return text + "; " + std::string(all_send ? advice_for_sends : "none of these calls can go on before another one of them: compare their order");
}

std::string whereabouts_of(const RankSeen& rank) {
  const auto& recent = rank.recent;
  const auto find = [&](auto&& fits) { return std::find_if(recent.rbegin(), recent.rend(), fits); };
  // A trace also has the waits of the program for asynchronous calls, which are of no group.
  const auto blocks = find([](const CallSeen& call) { return !call.group.empty() && !call.is_over() && call.queued == 0; });
  if (blocks != recent.rend()) {
    // The call before may have met its deadline a moment earlier than the caller's own: then it is the one that matters.
    const auto before = std::find_if(std::next(blocks), recent.rend(), [](const CallSeen& call) { return !call.group.empty(); });
    const bool has_failed = before != recent.rend() && before->state == CallState::failed;
    return "is in " + placed_text(*blocks) + tag_text(*blocks) + (has_failed ? fmt::format(", after {} has failed", placed_text(*before)) : "");
  }
  const auto last = find([](const CallSeen& call) { return !call.group.empty(); });
  if (last == recent.rend()) return "has made no call yet";
  if (!last->is_over()) return "has begun " + placed_text(*last);
  const std::string when = last->done == 0 || last->done > rank.now ? "" : fmt::format(" {} ago", duration_text(rank.now - last->done));
  return fmt::format("was last in {}, which {}{}", placed_text(*last), last->state == CallState::failed ? "failed" : "ended", when);
}

std::string whereabouts_of(pid_t process) {
  const auto reader = find_record(process);
  if (!reader) return {};
  const std::string stat = base::stat_after_name(process);
  const bool is_stopped = !stat.empty() && (stat[0] == 'T' || stat[0] == 't');
  return (is_stopped ? "is stopped, and " : "") + whereabouts_of(reader->read());
}

}  // namespace unisono::recorder

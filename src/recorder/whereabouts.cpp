#include "recorder/whereabouts.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/host.h"
#include "base/printable.h"
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

std::optional<MessageWait> message_wait_of(int rank, const RankSeen& seen) {
  const CallSeen* const call = wait_of(seen);
  if (call == nullptr || !is_message(call->kind) || (call->kind == Operation::recv && call->peer < 0)) return std::nullopt;
  return MessageWait{
      .rank = rank, .waited_for = call->waited_for, .sends = call->kind == Operation::send, .call = placed_text(*call) + tag_text(*call)};
}

std::string circle_text(std::span<const MessageWait> circle) {
  std::vector<int> ranks;
  for (const MessageWait& wait : circle) ranks.push_back(wait.rank);
  std::ranges::sort(ranks);
  const bool all_send = std::ranges::all_of(circle, &MessageWait::sends);
  std::string text = fmt::format("{} wait for each other: {}", base::name_ranks(ranks),
                                 all_send ? advice_for_sends : "none of these calls can go on before another one of them: compare their order");
  for (const MessageWait& wait : circle.first(std::min(circle.size(), most_told_of_circle)))
    text += fmt::format("; rank {} is in {}, and waits for rank {}", wait.rank, wait.call, wait.waited_for);
  return text + (circle.size() > most_told_of_circle ? "; and so on" : "");
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

#include "recorder/whereabouts.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/process.h"
#include "recorder/call_text.h"

namespace unisono::recorder {

std::string whereabouts_of(const RankSeen& rank) {
  const auto& recent = rank.recent;
  const auto find = [&](auto&& fits) { return std::find_if(recent.rbegin(), recent.rend(), fits); };
  // A trace also has the waits of the program for asynchronous calls, which are of no group.
  const auto blocks = find([](const CallSeen& call) { return !call.group.empty() && !call.is_over() && call.queued == 0; });
  if (blocks != recent.rend()) {
    // The call before may have met its deadline a moment earlier than the caller's own: then it is the one that matters.
    const auto before = std::find_if(std::next(blocks), recent.rend(), [](const CallSeen& call) { return !call.group.empty(); });
    const bool has_failed = before != recent.rend() && before->state == CallState::failed;
    return "is in " + placed_text(*blocks) + (has_failed ? fmt::format(", after {} has failed", placed_text(*before)) : "");
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

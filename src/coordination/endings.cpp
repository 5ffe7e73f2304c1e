#include "coordination/endings.h"

#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "base/printable.h"
#include "unisono/error.h"

namespace unisono::coordination {

namespace {

using namespace std::chrono_literals;

struct LeavingFacts {
  std::chrono::milliseconds time_to_end;
  PeerFailed::Cause cause;
  const char* text;
};

/// By the values of Leaving.
constexpr LeavingFacts leaving_facts[] = {
    {0ms, PeerFailed::Cause::disconnected, " has left the group (finalize) and will not come"},
    {0ms, PeerFailed::Cause::aborted, " gave up: an exception left the scope of its group"},
    {500ms, PeerFailed::Cause::disconnected, " has let go of the group (its last handle is gone) and will not come"},
    {5s, PeerFailed::Cause::exited, " has ended its program without finalize, and will not come"},  // Python takes its modules down meanwhile
};
static_assert(std::size(leaving_facts) == static_cast<std::size_t>(last_leaving) + 1);

const LeavingFacts& facts_of(Leaving how) { return leaving_facts[static_cast<std::size_t>(how)]; }

}  // namespace

Ending exited_with(int code) { return {PeerFailed::Cause::exited, fmt::format("exited with code {} before finalize", code)}; }
Ending killed_by(int signal) { return {PeerFailed::Cause::killed, "was killed by " + base::signal_name(signal)}; }

std::optional<Ending> RecordedEndings::of(int rank, std::chrono::milliseconds at_most) const {
  if (!store_) return std::nullopt;
  try {
    const std::string key = "unisono/exit/" + name_of_(rank);
    std::istringstream text(at_most.count() > 0 ? store_->get(key, at_most) : store_->try_get(key).value_or(""));  // "exit 7", "signal 9", "lost 0"
    std::string kind;
    int number = 0;
    if (!(text >> kind >> number)) return std::nullopt;
    if (kind == "lost") return Ending{PeerFailed::Cause::disconnected, "is lost with the launcher of its host"};
    return kind == "signal" ? killed_by(number) : exited_with(number);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the launcher has not recorded it
  }
  return std::nullopt;
}

std::chrono::milliseconds time_to_end(Leaving how) { return facts_of(how).time_to_end; }

Failure failure_of_leaving(int rank, const std::string& name, Leaving how) {
  return {.cause = facts_of(how).cause, .culprit = rank, .message = name + facts_of(how).text};
}

Failure failure_of_ending(int rank, const std::string& name, const Ending& ending) {
  return {.cause = ending.cause, .culprit = rank, .message = name + " " + ending.text};
}

}  // namespace unisono::coordination

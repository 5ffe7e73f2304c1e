#include "coordination/endings.h"

#include <sstream>

#include <fmt/format.h>

#include "base/printable.h"
#include "unisono/error.h"

namespace unisono::coordination {

using namespace std::chrono_literals;

Ending exited_with(int code) { return {PeerFailed::Cause::exited, fmt::format("exited with code {} before finalize", code)}; }
Ending killed_by(int signal) { return {PeerFailed::Cause::killed, "was killed by " + base::signal_name(signal)}; }

std::optional<Ending> RecordedEndings::of(int rank, std::chrono::milliseconds at_most) const {
  const auto index = static_cast<std::size_t>(rank);
  if (!store_ || index >= launched_.size()) return std::nullopt;
  try {
    const std::string key = "unisono/exit/" + launched_[index];
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

std::chrono::milliseconds time_to_end(Leaving how) {
  switch (how) {
    case Leaving::let_go: return 500ms;
    case Leaving::at_exit: return 5s;  // Python takes its modules down meanwhile
    case Leaving::in_order:
    case Leaving::by_exception: break;
  }
  return 0ms;
}

Failure failure_of_leaving(int rank, const std::string& name, Leaving how) {
  Failure failure{.kind = Failure::Kind::peer_failed, .cause = PeerFailed::Cause::disconnected, .culprit = rank, .missing = {}, .message = name};
  switch (how) {
    case Leaving::in_order: failure.message += " has left the group (finalize) and will not come"; break;
    case Leaving::by_exception:
      failure.cause = PeerFailed::Cause::aborted;
      failure.message += " gave up: an exception left the scope of its group";
      break;
    case Leaving::let_go: failure.message += " has let go of the group (its last handle is gone) and will not come"; break;
    case Leaving::at_exit:
      failure.cause = PeerFailed::Cause::exited;
      failure.message += " has ended its program without finalize, and will not come";
      break;
  }
  return failure;
}

Failure failure_of_ending(int rank, const std::string& name, const Ending& ending) {
  return {.kind = Failure::Kind::peer_failed, .cause = ending.cause, .culprit = rank, .missing = {}, .message = name + " " + ending.text};
}

}  // namespace unisono::coordination

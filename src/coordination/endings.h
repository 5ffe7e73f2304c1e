#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "unisono/failure.h"
#include "unisono/store.h"

namespace unisono::coordination {

/// The way in which a rank leaves a group. The ranks that still wait for it are told.
enum class Leaving : std::uint8_t {
  in_order,      ///< by finalize
  by_exception,  ///< an exception left the scope of the group
  let_go,        ///< the last handle of the group is gone: deleted, or the process is about to end
  at_exit,       ///< the program has come to its end without finalize: its exit code is known soon
};
inline constexpr Leaving last_leaving = Leaving::at_exit;

/// The end of the process of a rank that has left like this tells more: it is waited for, for a while.
constexpr bool may_be_an_end(Leaving how) { return how == Leaving::let_go || how == Leaving::at_exit; }

/// The end of a process, as far as it is known.
struct Ending {
  PeerFailed::Cause cause = PeerFailed::Cause::exited;
  std::string text;  // "was killed by SIGKILL", "exited with code 7 before finalize"
};
Ending exited_with(int code);
Ending killed_by(int signal);

/// What the launcher has recorded of the ends of processes, under the names that it has given them.
class RecordedEndings {
 public:
  RecordedEndings() = default;
  using NameOf = std::function<std::string(int rank)>;
  /// `store`: the launcher's; may be null. `name_of` returns the launcher's name for a rank.
  RecordedEndings(std::shared_ptr<Store> store, NameOf name_of) : store_(std::move(store)), name_of_(std::move(name_of)) {}
  /// Waits for the record of a rank for that time at most. Returns none where there is no launcher, or no record.
  std::optional<Ending> of(int rank, std::chrono::milliseconds at_most) const;

 private:
  std::shared_ptr<Store> store_;
  NameOf name_of_;
};

/// Returns how long the end of a process may take to show, after it has left a group like this.
std::chrono::milliseconds time_to_end(Leaving how);

/// Returns the failure of a rank that has left a group in which others wait for it. `name`: as errors name it.
Failure failure_of_leaving(int rank, const std::string& name, Leaving how);
/// Returns the failure of a rank whose process has ended.
Failure failure_of_ending(int rank, const std::string& name, const Ending& ending);

}  // namespace unisono::coordination

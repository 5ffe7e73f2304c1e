#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Counts the kills by the kernel's out-of-memory killer in a cgroup. A rank killed by it ends by SIGKILL, like one killed by hand; only this counter
/// tells the two apart. The kernel counts before the process ends, which takes seconds where it has much memory to give back. An older kill is that
/// of another process.
class MemoryEvents {
 public:
  /// Between two looks at the counter, each of which wakes the launcher.
  static constexpr std::chrono::milliseconds usual_period = std::chrono::seconds(5);

  /// Counts from now on. `folder` holds the cgroup's files (memory.events of version 2, or memory.oom_control of version 1). An empty name stands for
  /// the folder of this process's cgroup, in which its children begin.
  explicit MemoryEvents(const std::string& folder = {}, std::chrono::milliseconds period = usual_period);

  /// Ends a round when the next look is due.
  void wait_for(PollSet& set) const;
  /// Looks if that is due. Kills that the look before has found are too old from now on.
  void tick(base::Clock::time_point now = base::Clock::now());

  /// Returns true once for each kill of the last one to two periods; false also where no such file exists.
  bool take_kill();

 private:
  std::optional<std::uint64_t> count() const;

  std::string file_;
  std::uint64_t known_ = 0;   ///< kills that are taken, or too old
  std::uint64_t latest_ = 0;  ///< those of the last look
  std::chrono::milliseconds period_;
  base::Clock::time_point next_look_;
};

/// Returns the number after `oom_kill` in the text of such a file.
std::optional<std::uint64_t> kills_in(std::string_view text);

}  // namespace unisono::launcher

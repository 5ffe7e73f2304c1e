#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "launch/job/job_parts.h"
#include "launch/job/rank_processes.h"
#include "launch/process/leftovers.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Ends what the ranks of an attempt have left running, when all of them are dead:
///
///   found --pause--> asked to end --pause--> killed --pause--> over
class LeftoverSteps {
 public:
  LeftoverSteps(const JobParts& parts, const RankProcesses& processes) : parts_(parts), processes_(processes) {}

  struct Haste {
    bool is_told = false;                                 ///< the job was told to end: nothing has time to end by itself
    bool is_again = false;                                ///< the user has interrupted twice
    std::optional<std::chrono::milliseconds> grace = {};  ///< that is left for what a wrapper has started
  };
  bool have_begun() const { return step_ != Step::none; }
  /// Call it in each round, until it returns true: then nothing is left, or what is left does not end.
  bool advance(const Haste& haste);
  void wait_for(PollSet& set);

 private:
  enum class Step { none, found, asked, killed };
  void enter(Step step, std::chrono::milliseconds time);

  const JobParts& parts_;
  const RankProcesses& processes_;
  Step step_ = Step::none;
  std::vector<Leftover> leftovers_;
  std::optional<base::Deadline> deadline_;
};

}  // namespace unisono::launcher

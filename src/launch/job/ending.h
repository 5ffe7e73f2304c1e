#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "launch/job/job_parts.h"
#include "launch/job/ranks.h"
#include "launch/process/leftovers.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// The steps in which an attempt ends, and when patience with each of them is over:
///
///   running --a rank fails--> left alone --grace--> asked to end --grace--> killed
///   all ranks are dead --> leftovers found --pause--> asked to end --pause--> killed --pause--> over
///
/// Left alone, the ranks learn of the failure themselves; if all that live have shrunk their group by the end of the grace, the job goes on. A rank
/// that shares no group with the failed one learns nothing: it is asked to end after two seconds, or after the grace if that is shorter. Ctrl-C leads
/// to "asked to end" at once, a second one to "killed".
class Ending {
 public:
  Ending(const JobParts& parts, RankProcesses& processes, RankEnds& ends);

  bool is_running() const { return phase_ == Phase::running; }
  bool is_over() const { return phase_ == Phase::over; }
  void wait_for(PollSet& set);

  /// Says that a rank has failed, without which the others go on.
  void go_on() const;
  /// Says that a rank has failed, and how long the others have. `may_go_on`: the job does so if all of them shrink their group.
  void leave_alone(bool may_go_on);
  void ask_to_end(int signal);
  /// The same because of a signal to the job: where the ranks were asked before, they get no more time.
  void pass_on(int signal);
  void kill_all();
  /// The user has interrupted twice. Returns true where that kills the ranks.
  bool hurry();
  /// Takes the next step when it is time.
  void advance();
  /// The same when no rank lives: ends the processes that the ranks have left.
  void advance_leftovers();

 private:
  enum class Phase { running, left_alone, asked, killed, leftovers_found, leftovers_asked, leftovers_killed, over };

  void enter(Phase phase, std::optional<std::chrono::milliseconds> time);
  std::vector<std::size_t> living_outsiders() const;
  void ask_outsiders_to_end();
  std::chrono::milliseconds time_of_leftovers() const;

  const JobParts& parts_;
  RankProcesses& processes_;
  RankEnds& ends_;
  std::vector<Leftover> leftovers_;
  Phase phase_ = Phase::running;
  std::optional<base::Deadline> deadline_;
  std::optional<base::Deadline> outsiders_deadline_;  ///< set while ranks are left alone that share no group with the failed one
  std::optional<int> asked_with_;                     ///< the signal by which all ranks were asked to end last
  std::optional<base::Deadline> grace_;               ///< begun with it
  bool may_go_on_ = true;
  bool is_told_ = false;  ///< all ranks were told to end
  bool hurry_ = false;
};

}  // namespace unisono::launcher

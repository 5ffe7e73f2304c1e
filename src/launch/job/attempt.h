#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/job/ending.h"
#include "launch/job/job_parts.h"
#include "launch/job/replacement.h"
#include "launch/job/ranks.h"
#include "launch/job/rank_starter.h"
#include "launch/output/output.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// How an attempt has ended on this host.
struct AttemptEnd {
  std::optional<std::size_t> cause = {};         ///< index into `ends`
  std::optional<int> interrupted_by = {};        ///< the signal that has ended the attempt from outside
  bool interrupted_first = false;                ///< no rank had failed before the signal: else the rank is the first cause
  bool leaves = false;                           ///< the signal ends this host's part alone, and the job goes on elsewhere
  int replacements = 0;                          ///< so many processes were started in the place of lost ones, if this launcher alone counts them
  std::vector<RankEnd> ends = {};                ///< of this host's ranks
  std::vector<recorder::RankSeen> records = {};  ///< what they have recorded, without their calls
};

/// An attempt is one start of all ranks, until all have ended. Its parts each answer one question: which processes live (RankProcesses), how each has
/// ended (RankEnds), when patience is over (Ending), and what becomes of a lost rank's place (LossPolicy). This class asks them in turn, and handles
/// signals and what other hosts tell.
///
/// An example: four ranks, no restarts, and `kill -9` ends rank 2.
///
///   start     starter_ starts the ranks 0 to 3 and puts them into processes_; store_ serves them
///   round     the pidfd of rank 2 is readable: ends_.observe() takes its end from processes_ (signaled, 9), writes unisono/exit/2 = "signal 9" into
///             store_, where the ranks look for it, and notes failure(): "rank 2 ended by SIGKILL"
///   advance   losses_ takes the failure; ending_.leave_alone() says "…; the others have 15 s to end" and enters left_alone
///   round     ranks 0, 1 and 3 throw PeerFailed and exit with code 1; ends_ reads the last status of each: "poisoned 2 …"
///   advance   no process lives: ending_.advance_leftovers() finds none, and enters over
///   finish    end_.cause = losses_->finish() = first_cause(ends_.all()) = 2: the only rank that is no consequence of another one's end
class Attempt {
 public:
  /// `restarts_left`: if there are any, a failure ends all ranks at once. A job that goes on without lost ranks uses them to replace these.
  Attempt(const JobParts& parts, int number, int restarts_left);

  AttemptEnd run();

  /// Returns the last lines of a rank's standard error, or else of its output. Empty if they have just been shown, and for a rank of another host.
  const std::deque<std::string>& last_lines(int rank) const;

 private:
  void start();
  void round();
  void advance();
  void finish();
  void respond_to_other_hosts();
  void handle_signal(int signal);
  void interrupt(int signal);
  void begin_ending(int signal);

  const JobParts& parts_;
  const int number_, restarts_left_;
  OutputMultiplexer output_;
  RankStore store_;
  RankStarter starter_;
  std::unique_ptr<LossPolicy> losses_;  ///< null until the ranks have been started; its thread may take a while to end, when all ranks are dead
  RankProcesses processes_;
  RankEnds ends_;
  Ending ending_;
  AttemptEnd end_;
};

}  // namespace unisono::launcher

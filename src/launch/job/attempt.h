#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/job/ending.h"
#include "launch/job/job_parts.h"
#include "launch/job/loss_policy.h"
#include "launch/job/rank_ends.h"
#include "launch/job/rank_processes.h"
#include "launch/job/rank_records.h"
#include "launch/job/rank_starter.h"
#include "launch/job/rank_store.h"
#include "launch/output/output.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// An attempt is one start of all ranks, until all have ended. Its parts each answer one question: which processes live (RankProcesses), how each has
/// ended (RankEnds), when patience is over (Ending), and what becomes of a lost rank's place (LossPolicy). This class asks them in turn, and handles
/// signals and what other hosts tell.
///
/// An example: four ranks, no restarts, and SIGKILL ends rank 2.
///
///   start     starter_ starts the ranks 0 to 3, processes_ keeps them, store_ serves them
///   round     the descriptor of process 2 is readable: ends_ observes signal 9, tells the ranks "2 signal 9" through store_, and notes the failure
///   advance   losses_ (EndAll) takes the failure; ending_ leaves ranks 0, 1 and 3 alone for the grace
///   round     they throw PeerFailed and end with code 1; the last status of each is "poisoned 2 ..."
///   advance   no process lives: ending_ looks for leftovers, finds none, and is over
///   finish    cause_ = first_cause(ends) = 2, because the others name rank 2
class Attempt {
 public:
  /// `restarts_left`: where there are any, a failure ends all ranks at once. A job that goes on without lost ranks uses them to replace these.
  Attempt(const JobParts& parts, int number, int restarts_left);

  void run();

  /// Returns how many processes were started in the place of lost ones, where this launcher alone counts them.
  int replacements() const { return losses_->replacements(); }
  const std::vector<RankEnd>& ends() const noexcept { return ends_.all(); }
  std::optional<std::size_t> cause() const noexcept { return cause_; }
  /// Returns what this host's ranks have recorded, without their calls.
  std::vector<recorder::RankSeen> records() const { return records_.read(); }
  /// The signal that ended the attempt from outside.
  std::optional<int> interrupted_by() const noexcept { return interrupted_by_; }
  /// Returns false where a rank had failed before the signal: then the rank is the first cause.
  bool interrupted_first() const noexcept { return interrupted_first_; }
  /// Returns true where the signal ends this host's part alone, and the job goes on elsewhere.
  bool leaves() const noexcept { return leaves_; }
  /// Returns the last lines of a rank's standard error, or else of its output. Empty where they have just been shown, and for a rank of another host.
  const std::deque<std::string>& last_lines(int rank) const;

 private:
  void start();
  void start_rank(const RankStarter::Order& order);
  void start_newcomer(std::size_t index, const std::string& name, int number);
  std::unique_ptr<LossPolicy> make_policy();
  void round();
  void advance();
  void finish();
  void note_end(std::size_t index);
  void hear_other_hosts();
  void handle_signal(int signal);
  void interrupt(int signal);
  void begin_ending(int signal);

  const JobParts& parts_;
  const int number_, restarts_left_;
  OutputMultiplexer output_;
  RankStore store_;
  RankRecords records_;
  RankStarter starter_;
  RankProcesses processes_;
  RankEnds ends_;
  Ending ending_;
  std::unique_ptr<LossPolicy> losses_;  ///< null until the ranks have been started
  std::optional<int> interrupted_by_;
  std::optional<std::size_t> cause_;
  bool interrupted_first_ = false;
  bool leaves_ = false;
};

}  // namespace unisono::launcher

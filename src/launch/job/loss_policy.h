#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "launch/job/ending.h"
#include "launch/job/rank_ends.h"
#include "launch/job/rank_processes.h"
#include "launch/process/first_cause.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// What a job does when a rank is lost. Replacement (replacement.h) goes on without it, EndAll does not.
class LossPolicy {
 public:
  LossPolicy() = default;
  virtual ~LossPolicy() = default;
  LossPolicy(const LossPolicy&) = delete;
  LossPolicy& operator=(const LossPolicy&) = delete;

  /// Responds to what the round has shown, while the attempt runs.
  virtual void advance() = 0;
  /// A rank has ended on this host.
  virtual void note_end(const RankEnd& end) = 0;
  /// A rank has failed on this host.
  virtual void note_failure(const RankEnd& end) = 0;
  /// Another launcher says that ranks are lost. `rank`: the one that was lost last; -1: not known.
  virtual void fail(const std::string& why, int rank) = 0;
  /// The job is asked to end: no process is started any more.
  virtual void stop() = 0;
  /// Tells whether a process will start in the place of one that has ended.
  virtual bool will_restart() const = 0;
  /// Tells whether the attempt goes on although no rank of this host lives.
  virtual bool goes_on() const = 0;
  virtual void wait_for(PollSet& set) = 0;
  /// All ranks have ended. Returns the first cause, as far as this host can tell.
  virtual std::optional<std::size_t> finish() = 0;
  /// Returns how many processes were started in the place of lost ones, where this launcher alone counts them.
  virtual int replacements() const = 0;
};

/// Every failure ends all ranks: at once where another attempt follows, else they are left alone for a while.
class EndAll final : public LossPolicy {
 public:
  EndAll(Hosts& hosts, const RankProcesses& processes, RankEnds& ends, Ending& ending, bool restart_follows)
      : hosts_(hosts), processes_(processes), ends_(ends), ending_(ending), restart_follows_(restart_follows) {}

  void advance() override {
    if (!processes_.any_alive() || !ends_.failure().take()) return;
    if (restart_follows_) ending_.ask_to_end(SIGTERM);
    else ending_.leave_alone(true);
  }
  void note_end(const RankEnd& /*end*/) override {}
  void note_failure(const RankEnd& end) override {
    if (end.ended_by_launcher || std::exchange(is_told_, true)) return;
    hosts_.tell({.kind = Trouble::Kind::failure, .rank = end.rank, .how = how_of(end)});
  }
  void fail(const std::string& why, int /*rank*/) override { ends_.failure().note(why, std::nullopt); }
  void stop() override {}
  bool will_restart() const override { return false; }
  bool goes_on() const override { return false; }
  void wait_for(PollSet& /*set*/) override {}
  std::optional<std::size_t> finish() override { return first_cause(ends_.all()); }
  int replacements() const override { return 0; }

 private:
  Hosts& hosts_;
  const RankProcesses& processes_;
  RankEnds& ends_;
  Ending& ending_;
  const bool restart_follows_;
  bool is_told_ = false;
};

}  // namespace unisono::launcher

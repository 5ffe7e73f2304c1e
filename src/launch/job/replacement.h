#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/job/ending.h"
#include "launch/job/job_parts.h"
#include "launch/job/rank_starter.h"
#include "launch/job/ranks.h"
#include "launch/process/first_cause.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// What a job does when a rank is lost: every failure ends all ranks, at once if another attempt follows, else they are left alone for a while.
/// Replacement goes on without a lost rank.
class LossPolicy {
 public:
  LossPolicy(Hosts& hosts, RankProcesses& processes, RankEnds& ends, Ending& ending, int restarts_left)
      : hosts_(hosts), processes_(processes), ends_(ends), ending_(ending), restarts_left_(restarts_left) {}
  virtual ~LossPolicy() = default;
  LossPolicy(const LossPolicy&) = delete;
  LossPolicy& operator=(const LossPolicy&) = delete;

  /// Responds to what the round has shown, while the attempt runs.
  virtual void advance();
  /// A rank has ended on this host.
  virtual void note_end(const RankEnd& /*end*/) {}
  /// A rank has failed on this host.
  virtual void note_failure(const RankEnd& end);
  /// Another launcher says that ranks are lost. `rank`: the one that was lost last; -1: not known.
  virtual void fail(const std::string& why, int /*rank*/) { ends_.failure().note(why, std::nullopt); }
  /// The job is asked to end: no process is started any more.
  virtual void stop() {}
  /// Tells whether a process will start in the place of one that has ended.
  virtual bool will_restart() const { return false; }
  /// Tells whether the attempt goes on although no rank of this host lives.
  virtual bool goes_on() const { return false; }
  virtual void wait_for(PollSet& /*set*/) {}
  /// All ranks have ended. Returns the first cause, as far as this host can tell.
  virtual std::optional<std::size_t> finish() { return first_cause(ends_.all()); }
  /// Returns how many processes were started in the place of lost ones, where this launcher alone counts them.
  virtual int replacements() const { return 0; }

 protected:
  Hosts& hosts_;
  RankProcesses& processes_;
  RankEnds& ends_;
  Ending& ending_;
  const int restarts_left_;

 private:
  bool is_told_ = false;
};

/// A job that goes on while enough ranks live: `-n MIN:MAX`. A rank that is lost is replaced as long as restarts are left; the members take the new
/// process in when they like (unisono::grow_group).
///
///   place: lives --process ends--> lost --pause--> another process lives in it, which is no member until it has initialized
///
/// If fewer than MIN members live or have ended well, the attempt fails as any other does.
class Replacement final : public LossPolicy {
 public:
  /// Call it when the ranks of the start have been started, because a thread talks to other hosts.
  Replacement(const JobParts& job, int attempt, int restarts_left, RankStore& store, RankStarter& starter, Ending& ending);

  void advance() override;
  void note_end(const RankEnd& end) override { peers_->tell_end(end.name, how_of(end)); }
  void note_failure(const RankEnd& /*end*/) override {}
  void fail(const std::string& why, int rank) override;
  void stop() override;
  bool will_restart() const override;
  bool goes_on() const override;
  void wait_for(PollSet& set) override;
  std::optional<std::size_t> finish() override;
  int replacements() const override { return peers_->own_restarts(); }

 private:
  struct RankPlace {
    bool is_lost = false;                        ///< its process has ended, and was not replaced so far
    bool is_asked = false;                       ///< it has asked for a restart, and has no answer yet
    std::optional<base::Deadline> restart = {};  ///< when another process starts in its place
    int restarts = 0;
    std::string not_started = {};                 ///< why the last start of another process there has failed
    std::optional<base::Deadline> patience = {};  ///< of a process that the others have left out, until it is killed
  };

  const JobTerms& terms() const { return job_.terms(); }
  void take_news();
  void take_grant(int rank, int number);
  std::vector<std::size_t> note_lost();
  void end_those_left_out();
  bool is_member(std::size_t index) const;
  HostTally tally() const;
  HostTally tally_of_others() const;
  bool has_too_few(const HostTally& all);
  /// Says that a rank is lost, and has it replaced.
  void announce(std::size_t index, bool is_replaced);
  /// Returns how the process in this place was lost, or why none was started there.
  std::string loss(std::size_t index) const;
  void replace(std::size_t index);
  int cancel_restarts();

  const JobParts& job_;
  RankStore& store_;
  RankStarter& starter_;
  const std::unique_ptr<ElasticPeers> peers_;
  ElasticPeers::News news_;  ///< what they have said last
  std::vector<RankPlace> places_;
  int last_lost_ = -1;                       ///< the rank of this host that was lost last
  std::optional<base::Deadline> next_look_;  ///< for news in the store
  std::optional<base::Deadline> doubt_;      ///< set while the tallies of all hosts say that too few are left
  bool are_too_few_ = false;                 ///< too few ranks are left, and the attempt ends
  bool is_stopped_ = false;
};

}  // namespace unisono::launcher

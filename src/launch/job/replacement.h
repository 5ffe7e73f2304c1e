#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/job/job_parts.h"
#include "launch/job/loss_policy.h"
#include "launch/job/rank_store.h"

namespace unisono::launcher {

/// A job that goes on while enough ranks live: `-n MIN:MAX`. A rank that is lost is replaced as long as restarts are left; the members take the new
/// process in when they like (unisono::grow_group).
///
///   place: lives --process ends--> lost --pause--> another process lives in it, which is no member until it has initialized
///
/// Where fewer than MIN members live or have ended well, the attempt fails as any other does.
class Replacement final : public LossPolicy {
 public:
  struct Parts {
    const JobParts& job;
    int attempt = 0;
    int restarts_left = 0;
    RankStore& store;
    RankProcesses& processes;
    RankEnds& ends;
    Ending& ending;
    /// The process in this place is lost for good, before another one starts there.
    std::function<void(std::size_t index)> lose;
    /// Starts a process of that name in a place, the n-th after that of the start. Throws StartFailed.
    std::function<void(std::size_t index, const std::string& name, int number)> start;
  };
  /// Call it when the ranks of the start have been started, because a thread talks to other hosts.
  explicit Replacement(Parts parts);

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

  const JobTerms& terms() const { return parts_.job.terms(); }
  void hear();
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

  const Parts parts_;
  const std::unique_ptr<ElasticPeers> peers_;
  ElasticPeers::News news_;  ///< what they have said last
  std::vector<RankPlace> places_;
  int last_lost_ = -1;                       ///< the rank of this host that was lost last
  std::optional<base::Deadline> next_look_;  ///< for news in the store
  std::optional<base::Deadline> doubt_;      ///< set while the tallies of all hosts say that too few are left
  bool are_too_few_ = false;                 ///< too few ranks were left, and the attempt ends
  bool is_stopped_ = false;
};

}  // namespace unisono::launcher

#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/hosts/attempt_reports.h"
#include "launch/hosts/heartbeat.h"
#include "launch/hosts/host_changes.h"
#include "launch/hosts/host_meeting.h"
#include "launch/hosts/hosts.h"
#include "launch/hosts/node_states.h"

namespace unisono::launcher {

/// Connects the launchers of a job of several hosts, each of which starts the ranks of its host: in the store of node 0, where the ranks meet as
/// well.
class Nodes final : public Hosts {
 public:
  /// Meets the others. Construct it before signals are handled and after the last fork without exec. Throws what HostMeeting does.
  explicit Nodes(const JobOptions& options);
  /// Node 0 waits a moment until the others no longer use its store.
  ~Nodes() override;

  const JobTerms& terms() const override { return meeting_.terms(); }
  bool are_several() const override { return true; }
  int present() const override { return meeting_.roster().present(); }
  std::vector<JobHost> all() const override { return meeting_.roster().all(); }
  std::string name_of(int node) const override;
  int node_of(int rank) const override { return meeting_.roster().host_of(rank); }
  bool decides() const override { return meeting_.is_node_zero(); }
  /// A host that is taken back is told so by SIGTERM. Host 0 serves the store, so the job ends with it.
  bool is_left_by(int signal) const override { return terms().is_open && !decides() && signal == SIGTERM; }
  std::unique_ptr<ElasticPeers> make_elastic(int attempt, int restarts_left) const override;
  std::unique_ptr<NodeExchange> make_exchange(std::string_view name, int attempt) const override;
  void answer_for_states(std::function<JobSeen()> look) override;
  std::vector<JobSeen> states_of_others() const override { return states_->of_others(); }
  void tell_ranks(store::StoreServer& launchers, int attempt) const override { meeting_.tell_ranks(launchers, attempt); }

  /// Returns a descriptor that is readable when there is something to take.
  int fd() const { return reports_.fd(); }
  void begin(int attempt) override { reports_.begin(attempt); }
  void wait_for(PollSet& set, std::function<void()> ready) override;
  void give_up_restart(int attempt, int signal) noexcept override;
  void tell(Trouble trouble) override { reports_.tell(std::move(trouble)); }
  void close() override { changes_->close(); }
  std::vector<std::string> take_news() override { return changes_->take_news(); }
  std::optional<Trouble> take_trouble() override { return reports_.take_trouble(); }
  std::optional<Trouble> first_trouble() override { return reports_.first_trouble(); }
  void end(const std::vector<RankEnd>& ends) override;
  bool all_ended() override { return reports_.all_ended(); }
  std::vector<RankEnd> ends() override { return reports_.ends(); }
  int replacements() override { return reports_.replacements(); }

 private:
  void say_goodbye();

  HostMeeting meeting_;
  AttemptReports reports_;
  const std::unique_ptr<HostChanges> changes_;
  Heartbeat heartbeat_;
  std::unique_ptr<NodeStates> states_;
};

}  // namespace unisono::launcher

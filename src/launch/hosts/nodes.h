#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "launch/hosts/attempt_reports.h"
#include "launch/hosts/host_changes.h"
#include "launch/hosts/host_meeting.h"
#include "launch/hosts/host_texts.h"
#include "launch/hosts/hosts.h"
#include "launch/view/job_view.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// Has each launcher of a job of several hosts tell the others what its ranks do, when one of them asks, through the launchers' store: whose
/// connections are authenticated. Only what was asked for travels.
class NodeStates {
 public:
  /// `look`: called by a thread of this object. Once the store is lost, nothing is told any more.
  NodeStates(std::shared_ptr<Store> store, int node, const HostRoster& hosts, std::function<JobSeen()> look);
  /// The store's connection must have ended: the thread waits in it.
  ~NodeStates() = default;

  /// Returns what the ranks of the other hosts do, of those that answer within a time. Any thread may call it.
  std::vector<JobSeen> of_others();

 private:
  void answer();
  std::int64_t newest();
  void answer_once(std::int64_t number);
  std::string key(std::int64_t number, const std::string& what) const;

  const std::shared_ptr<Store> store_;
  const int node_;
  const HostRoster& hosts_;
  const std::function<JobSeen()> look_;
  base::Thread answering_;
};

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
  /// Writes again and again that this launcher lives, with its reports, and looks whether the others do. The end of a launcher's connection shows its
  /// death; silence shows that it is cut off.
  void beat();
  void look_for_the_silent(SilenceWatch& others);

  HostMeeting meeting_;
  AttemptReports reports_;
  const std::unique_ptr<HostChanges> changes_;
  base::Thread heartbeat_;
  std::unique_ptr<NodeStates> states_;
};

}  // namespace unisono::launcher

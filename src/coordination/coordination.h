#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/notifier.h"
#include "coordination/ballots.h"
#include "coordination/group_topology.h"
#include "coordination/notices.h"
#include "coordination/peers.h"
#include "engines/shm/engine.h"
#include "transport/tcp/link.h"
#include "unisono/call.h"
#include "unisono/failure.h"
#include "unisono/task.h"

namespace unisono::coordination {

/// The ranks of one host: the shared-memory engine by which they agree, and the processes behind them.
struct HostRanks {
  std::shared_ptr<engines::shm::ShmEngine> engine;
  std::unique_ptr<Peers> peers;
};

struct CoordinationParts {
  std::string key;                ///< the same on all members, and of no other group
  std::vector<int> global_ranks;  ///< of the members, in group order
  GroupTopology topology;
  HostRanks host = {};                            ///< of the ranks of this host; empty where this rank is alone there
  std::shared_ptr<transport::Link> link = {};     ///< with the ranks of other hosts, or all that an engine connects; null where there is none
  bool owns_link = false;                         ///< the link ends with this group
  std::shared_ptr<base::Notifier> notifier = {};  ///< of a rank that is alone on its host; null: the host's
};

/// Whether the calls of a group may go on: all ranks have come to the same call, nobody has died, the group is not over. Everything that answers this
/// is here, for a group on one host and on several: agreement, failure detection, and how a failure reaches all ranks. Ranks are ranks in the group.
class Coordination {
 public:
  explicit Coordination(CoordinationParts parts);
  ~Coordination();
  Coordination(const Coordination&) = delete;
  Coordination& operator=(const Coordination&) = delete;

  const GroupTopology& topology() const { return topology_; }
  const std::vector<int>& global_ranks() const { return parts_.global_ranks; }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size(); }
  bool is_one_host() const { return topology_.host_count() == 1; }
  /// Null where this rank is alone on its host.
  const std::shared_ptr<engines::shm::ShmEngine>& host_engine() const { return parts_.host.engine; }
  const std::shared_ptr<transport::Link>& link() const { return parts_.link; }
  /// Between hosts. Its handlers are set before `begin`.
  Notices& notices() { return *notices_; }
  std::uint64_t group_id() const { return group_id_; }
  /// The members may be heard: all handlers of notices are there.
  void begin();
  /// No handler of notices runs any more when it returns.
  void end();

  // ---- agreement ----------------------------------------------------------------------------------------------

  /// For the lifetime of a call that is compared here. A rank that has its part of a call done may leave the group, and is missed by nobody who is
  /// still in that call: so from the agreement on, ranks that have left are no failure.
  class CallUnderWay {
   public:
    explicit CallUnderWay(Coordination& coordination) : flag_(coordination.agreed_) { flag_.store(false, std::memory_order_release); }
    ~CallUnderWay() { flag_.store(false, std::memory_order_release); }
    CallUnderWay(const CallUnderWay&) = delete;
    CallUnderWay& operator=(const CallUnderWay&) = delete;
    void is_agreed() { flag_.store(true, std::memory_order_release); }

   private:
    std::atomic<bool>& flag_;
  };
  /// All ranks compare what they are about to call (agreement.h). Done when all have come and agree; throws Mismatch on every rank where they differ.
  std::unique_ptr<Task> start_agreement(const CollectiveCall& call);
  /// Lets the ranks of one host agree, for a caller that waits. Returns whether all ranks have come with the flag raised; those that come by
  /// `start_agreement` have not.
  bool agree(const CollectiveCall& call, Waiter& waiter, bool flag);

  // ---- failures -----------------------------------------------------------------------------------------------

  /// Tells every rank that the group is over. The first failure stands. From any thread.
  void poison(const Failure& failure);
  /// `end_engines` ends the engines when the group is over. It is called once, by the first thread that poisons the group here, and must not throw.
  void set_on_over(std::function<void(const Failure&)> end_engines) { end_engines_ = std::move(end_engines); }
  /// The reason why the group is over, if it is. Costs one load while it is not. From any thread.
  std::optional<Failure> failure() {
    if (!may_be_over()) [[likely]]
      return std::nullopt;
    return read_failure();
  }
  /// Looks for peers that are dead, or of `waiting_for`, that have left or been stopped for too long. Makes system calls. `any_will_do`: any one of
  /// `waiting_for` is enough.
  std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do);
  /// Finds one of these ranks that is dead or has been stopped for too long, whatever became of the group. Ranks that have left do not count.
  std::optional<Failure> look_at(std::span<const int> ranks);
  /// The ranks whose processes are known to be dead or to have left, ascending.
  std::vector<int> gone();
  /// The last word of a rank that finalizes: it will not be missed any more. Never waits for peers, but for what is still to be sent to them.
  /// `end_engines` is called when the peers know.
  void leave(const std::function<void()>& end_engines);

  // ---- waiting ------------------------------------------------------------------------------------------------

  /// Notified when something may have changed; null: a group of one.
  base::Notifier* notifier();
  /// The notifier of another rank of this host; null: not known.
  base::Notifier* notifier_of(int rank);
  /// There are more ranks than processors on this host: waiting should give way early.
  bool is_crowded() const { return parts_.host.engine != nullptr && parts_.host.engine->is_crowded(); }
  /// Takes what has come from other hosts. Any thread.
  void poll() {
    if (parts_.link) parts_.link->poll();
  }

 private:
  bool may_be_over() const;
  std::optional<Failure> read_failure();
  std::optional<Failure> announced();
  std::optional<Failure> look_for_peers(std::span<const int> waiting_for, bool any_will_do);
  std::optional<Failure> look_on_host(std::span<const int> waiting_for, bool any_will_do, std::set<int>& left_here);
  std::optional<Failure> lost_peers();
  std::optional<Failure> lost_peer(int rank);
  bool has_left(int rank);
  int global(int rank) const { return parts_.global_ranks[static_cast<std::size_t>(rank)]; }
  void tell_others(std::string_view notice);

  CoordinationParts parts_;
  const GroupTopology& topology_;
  std::uint64_t group_id_ = 0;
  std::unique_ptr<Notices> notices_;  // null where there is one host
  Ballots ballots_;
  std::uint64_t agreements_ = 0;
  std::function<void(const Failure&)> end_engines_;
  std::atomic<bool> agreed_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> is_announced_{false};
  std::atomic<bool> ended_engines_{false};
  std::mutex mutex_;  // of what follows
  std::optional<Failure> failure_;
  std::optional<Failure> announced_;  // by a rank on another host; counts a moment later
  base::Clock::time_point announced_at_{};
  std::set<int> left_;  // ranks of other hosts
};

/// The ranks of a host that are processes: collective over them, through their store. `names`: by which errors call them, where that is not their
/// rank here. `notifiers`: those that they have already in the world, so that a process sleeps in one place, whatever it waits for; empty: new ones.
struct HostOptions {
  std::string group_name = {};
  int rank = 0;  ///< among the ranks of the host
  std::vector<int> global_ranks = {};
  std::vector<int> names = {};
  std::shared_ptr<Store> store = {};         ///< of their own, under a prefix
  std::shared_ptr<Store> job_store = {};     ///< the launcher's, where it notes how processes ended; may be null
  std::shared_ptr<Coordination> world = {};  ///< null when it is the world that is made
  std::chrono::milliseconds timeout{};
};
HostRanks join_host(const HostOptions& options);
/// The ranks of a host that are threads of this process, on memory that they share.
HostRanks host_of_threads(std::shared_ptr<engines::shm::Segment> segment, int rank, int cpus);
/// The notifiers of these ranks of the world; empty where one is not known.
std::vector<base::Notifier*> notifiers_of(Coordination& world, const std::vector<int>& global_ranks);

}  // namespace unisono::coordination

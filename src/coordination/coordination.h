#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/notifier.h"
#include "base/rank_list.h"
#include "coordination/ballots.h"
#include "coordination/early_mail.h"
#include "coordination/endings.h"
#include "coordination/exchange.h"
#include "coordination/group_topology.h"
#include "coordination/leaving.h"
#include "coordination/notices.h"
#include "coordination/peers.h"
#include "coordination/whereabouts.h"
#include "engines/shm/engine.h"
#include "transport/tcp/link.h"
#include "unisono/call.h"
#include "unisono/detail/switches.h"
#include "unisono/failure.h"
#include "unisono/task.h"

namespace unisono::coordination {

struct AgreementParts;

/// The ranks of one host: the shared-memory engine by which they agree, and their processes.
struct HostRanks {
  std::shared_ptr<engines::shm::ShmEngine> engine;
  std::unique_ptr<Peers> peers;
};

struct CoordinationParts {
  std::string key;                ///< equal on all members, and different from that of any other group
  std::vector<int> global_ranks;  ///< of the members, in group order
  GroupTopology topology;
  HostRanks host = {};                            ///< the ranks of this host; empty where this rank is alone there
  std::shared_ptr<transport::Link> link = {};     ///< connects the ranks of other hosts, or all that an engine connects; null where there is none
  bool owns_link = false;                         ///< the link ends with this group
  bool connects_all = false;                      ///< the link connects all ranks of the group, those of one host too
  double crowding = 1;                            ///< the ranks of this and of other hosts for each processor that they share
  std::shared_ptr<Whereabouts> whereabouts = {};  ///< of all groups of the process; null: the first one
  std::shared_ptr<base::Notifier> notifier = {};  ///< of a rank that is alone on its host; null: the host's
  RecordedEndings recorded = {};                  ///< by the launcher, of the members
};

/// Decides whether the calls of a group may go on: all ranks have come to the same call, none has died, the group is not over. It contains agreement,
/// failure detection, and the ways of a failure to all ranks, for groups on one host and on several. Ranks are ranks in the group.
class Coordination {
 public:
  explicit Coordination(CoordinationParts parts);
  ~Coordination();
  Coordination(const Coordination&) = delete;
  Coordination& operator=(const Coordination&) = delete;

  const GroupTopology& topology() const { return topology_; }
  const std::vector<int>& global_ranks() const { return parts_.global_ranks; }
  const std::string& key() const { return parts_.key; }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size(); }
  bool is_one_host() const { return topology_.host_count() == 1; }
  /// Null where this rank is alone on its host.
  const std::shared_ptr<engines::shm::ShmEngine>& host_engine() const { return parts_.host.engine; }
  const std::shared_ptr<transport::Link>& link() const { return parts_.link; }
  /// Returns the notices between hosts. Handlers are set before `begin`.
  Notices& notices() { return *notices_; }
  const std::shared_ptr<Whereabouts>& whereabouts() const { return parts_.whereabouts; }
  std::uint64_t group_id() const { return group_id_; }
  /// Begins to receive notices: all handlers are set.
  void begin();
  /// Ends the notices. No handler runs any more when it returns.
  void end();

  // ---- agreement ----------------------------------------------------------------------------------------------

  /// Marks a call that is compared here, for its lifetime. A rank that has done its part of a call may leave the group while others are still in that
  /// call, so ranks that leave after the agreement are no failure.
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
  /// Compares the next call of all ranks (agreement.h). The task is done when all have come and agree; it throws Mismatch on every rank where they
  /// differ.
  ///
  /// `carried`, if there is any, must live as long as the task; only ranks on several hosts exchange it.
  std::unique_ptr<Task> start_agreement(const CollectiveCall& call, Carried* carried = nullptr);
  /// Returns the number of the agreement that was started last. It is the same on all ranks.
  std::uint64_t agreement_number() const { return agreements_; }
  /// Returns the way of elements that leave before the ranks have agreed; between hosts.
  EarlyMail& early_mail() { return *early_mail_; }
  /// Returns true where every rank is connected with all others; between hosts.
  bool connects_all() const { return parts_.connects_all || !topology_.has_levels(); }
  /// Lets the ranks of one host agree, for a caller that waits. Returns true where all ranks have come with the flag set; those that come by
  /// `start_agreement` have it unset.
  bool agree(const CollectiveCall& call, Waiter& waiter, bool flag);

  // ---- failures -----------------------------------------------------------------------------------------------

  /// Tells every rank that the group is over. The first failure counts. Any thread may call it.
  void poison(const Failure& failure);
  /// Sets the function that ends the engines when the group is over. It is called once, by the first thread that poisons the group here, and must not
  /// throw.
  void set_on_over(std::function<void(const Failure&)> end_engines) { end_engines_ = std::move(end_engines); }
  /// Returns the reason why the group is over, if it is. Costs one load while it is not. Any thread may call it.
  std::optional<Failure> failure() {
    if (!may_be_over()) [[likely]]
      return std::nullopt;
    return read_failure();
  }
  /// Looks for dead peers, and for ranks of `waiting_for` that have left, or been silent for longer than `patience`: stopped, or cut off. Makes
  /// system calls. With `any_will_do`, one present rank of `waiting_for` is enough.
  std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do,
                                           std::chrono::milliseconds patience = detail::silence_limit());
  /// Finds a rank among these that is dead or has been stopped for too long, even where the group is over. Ranks that have left do not count.
  std::optional<Failure> look_at(std::span<const int> ranks);
  /// Returns the process of a rank of this host; nothing where ranks are threads, and for ranks of other hosts.
  std::optional<pid_t> process_of(int rank) const;
  /// Returns what a rank of another host has told lately: in which call it waits. Empty where it has told nothing.
  std::string whereabouts_of(int rank) const;
  /// Tells the first of these ranks that are on other hosts in which call this one waits, as `text` says, no more than once a second.
  void tell_whereabouts(std::span<const int> waiting_for, const std::function<std::string()>& text);
  /// Returns the ranks whose processes are known to be dead or to have left, ascending.
  std::vector<int> gone();
  /// Announces that this rank leaves, and how, so that it will not be waited for. Where the link ends with this group it waits `at_most` until the
  /// systems of the peers have what is pending, and never for an action of peers. `end_engines` is called when the peers have been told.
  void leave(Leaving how, const std::function<void()>& end_engines, std::chrono::milliseconds at_most);
  /// Names a rank for errors, with its rank in the world where that is another one.
  std::string name(int rank) const { return base::name_rank(rank, global(rank)); }

  // ---- waiting ------------------------------------------------------------------------------------------------

  /// Returns the notifier of this rank, which is notified when something may have changed; null: a group of one.
  base::Notifier* notifier();
  /// Returns the ranks of this host as they wait for each other; null where there are none, or more than processors.
  base::Neighbours* neighbours();
  /// Returns the notifier of another rank of this host; null: not known.
  base::Notifier* notifier_of(int rank);
  /// Returns true where more ranks run on this machine than it has processors, so that waiting ranks should yield early.
  double crowding() const { return parts_.crowding; }
  bool is_crowded() const { return crowding() > 1 || (parts_.host.engine != nullptr && parts_.host.engine->is_crowded()); }
  /// Receives what has come from other hosts. Any thread may call it.
  void poll() {
    if (parts_.link) parts_.link->poll();
  }

 private:
  bool may_be_over() const;
  std::optional<Failure> read_failure();
  std::optional<Failure> announced();
  std::optional<Failure> look_for_peers(std::span<const int> waiting_for, bool any_will_do, std::chrono::milliseconds patience);
  std::optional<Failure> look_on_host(std::span<const int> waiting_for, bool any_will_do, std::set<int>& left_here,
                                      std::chrono::milliseconds patience);
  std::optional<Failure> silent_peer(std::span<const int> waiting_for, std::chrono::milliseconds patience);
  std::optional<Failure> failure_of_left(int rank);
  std::optional<Failure> lost_peers();
  std::optional<Failure> lost_peer(int rank);
  bool has_left(int rank);
  int global(int rank) const { return parts_.global_ranks[static_cast<std::size_t>(rank)]; }
  void tell_others(std::string_view notice, transport::Link::Announcement what);
  std::unique_ptr<const AgreementParts> parts_of_agreement();

  CoordinationParts parts_;
  const GroupTopology& topology_;
  std::uint64_t group_id_ = 0;
  std::vector<int> others_;           // the ranks on other hosts, by their ranks in the world
  std::unique_ptr<Notices> notices_;  // null where there is one host
  Ballots ballots_;
  ExchangeMemory exchange_memory_;
  std::unique_ptr<const AgreementParts> agreement_parts_;
  std::uint64_t agreements_ = 0;
  std::unique_ptr<EarlyMail> early_mail_;  // null where there is one host
  std::function<void(const Failure&)> end_engines_;
  std::atomic<bool> agreed_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> is_announced_{false};
  std::atomic<bool> ended_engines_{false};
  std::mutex mutex_;  // guards the members below
  std::optional<Failure> failure_;
  std::optional<Failure> announced_;  // by a rank on another host; counts a moment later
  base::Clock::time_point announced_at_{}, next_telling_{};
  /// What a rank of another host has said when it left.
  struct Left {
    std::uint64_t agreements = 0;  // the number of its last one
    Leaving how = Leaving::in_order;
    base::Clock::time_point at = base::Clock::now();
  };
  std::map<int, Left> left_;
};

/// Returns how long a rank may be silent where a call has waited for so long and has so much time in all. That is silence_limit(); towards the end of
/// the call's time it is half of that time, because the rank will not come before the deadline, and is known to be silent and not late.
std::chrono::milliseconds patience_of_call(std::chrono::nanoseconds elapsed, std::chrono::milliseconds timeout);

/// Options of the ranks of a host that are processes; they join collectively, through their store.
struct HostOptions {
  std::string group_name = {};
  int rank = 0;  ///< among the ranks of the host
  std::vector<int> global_ranks = {};
  std::vector<int> names = {};             ///< of the ranks in errors, where these differ from their ranks here
  std::shared_ptr<Store> store = {};       ///< of these ranks, under a prefix
  std::shared_ptr<Store> job_store = {};   ///< the launcher's, where it records how processes ended; may be null
  std::vector<std::string> launched = {};  ///< the launcher's names for these processes
  ///< the world, whose notifiers are used again, so that a process sleeps in one place whatever it waits for; null: it is being made
  std::shared_ptr<Coordination> world = {};
  std::chrono::milliseconds timeout{};
};
/// Joins the ranks of a host that are processes.
HostRanks join_host(const HostOptions& options);
/// Makes the ranks of a host that are threads of this process, on memory that they share.
HostRanks host_of_threads(std::shared_ptr<engines::shm::Segment> segment, int rank, int cpus, const std::vector<int>& global_ranks);
/// Returns the notifiers of these ranks of the world; empty where one is not known.
std::vector<base::Notifier*> notifiers_of(Coordination& world, const std::vector<int>& global_ranks);

}  // namespace unisono::coordination

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/notifier.h"
#include "coordination/ballots.h"
#include "coordination/coordination_parts.h"
#include "coordination/exchange.h"
#include "coordination/failure_detector.h"
#include "coordination/failure_state.h"
#include "coordination/notices.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::coordination {

struct AgreementParts;

/// Decides whether the calls of a group may go on: all ranks have come to the same call, none has died, the group is not over. It contains agreement,
/// failure detection, and the ways of a failure to all ranks, for groups on one host and on several. Ranks are ranks in the group.
class Coordination {
 public:
  explicit Coordination(CoordinationParts parts);
  ~Coordination();
  Coordination(const Coordination&) = delete;
  Coordination& operator=(const Coordination&) = delete;

  const GroupTopology& topology() const { return parts_.topology; }
  const std::vector<int>& global_ranks() const { return parts_.global_ranks; }
  const std::string& key() const { return parts_.key; }
  int rank() const { return parts_.topology.rank; }
  int size() const { return parts_.topology.size(); }
  bool is_one_host() const { return parts_.is_one_host(); }
  /// Null where this rank is alone on its host.
  const std::shared_ptr<engines::HostEngine>& host_engine() const { return parts_.host.engine; }
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
    explicit CallUnderWay(Coordination& coordination) : detector_(coordination.detector_) { detector_.set_agreed(false); }
    ~CallUnderWay() { detector_.set_agreed(false); }
    CallUnderWay(const CallUnderWay&) = delete;
    CallUnderWay& operator=(const CallUnderWay&) = delete;
    void is_agreed() { detector_.set_agreed(true); }

   private:
    FailureDetector& detector_;
  };
  /// Compares the next call of all ranks (agreement.h). The task is done when all have come and agree; it throws Mismatch on every rank where they
  /// differ.
  ///
  /// `carried`, if there is any, must live as long as the task; only ranks on several hosts exchange it.
  std::unique_ptr<Task> start_agreement(const CollectiveCall& call, Carried* carried = nullptr);
  /// Returns true while ranks are known to differ in a call, and it is not decided yet who is to blame: its task is about to throw a Mismatch, and
  /// whatever else is the matter comes later.
  bool is_disputed() const {
    return is_disputed_.load(std::memory_order_acquire) || (parts_.host.engine != nullptr && parts_.host.engine->is_disputed());
  }
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
  std::optional<Failure> failure() const { return failures_.known(); }
  /// Returns the reason why the group is over, or what FailureDetector::look finds.
  std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do,
                                           std::chrono::milliseconds patience = detail::silence_limit());
  FailureDetector& detector() { return detector_; }
  const FailureDetector& detector() const { return detector_; }
  /// Returns what a rank of another host has told lately: in which call it waits. Empty where it has told nothing.
  std::string whereabouts_of(int rank) const;
  /// Tells the first of these ranks that are on other hosts in which call this one waits, as `text` says, no more than once a second.
  void tell_whereabouts(std::span<const int> waiting_for, const std::function<std::string()>& text);
  /// Announces that this rank leaves, and how, so that it will not be waited for. Where the link ends with this group it waits `at_most` until the
  /// systems of the peers have what is pending, and never for an action of peers. `end_engines` is called when the peers have been told.
  void leave(Leaving how, const std::function<void()>& end_engines, std::chrono::milliseconds at_most);
  /// Names a rank for errors, with its rank in the world where that is another one.
  std::string name(int rank) const { return parts_.name(rank); }

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
  std::unique_ptr<const AgreementParts> parts_of_agreement();

  CoordinationParts parts_;
  FailureState failures_;
  FailureDetector detector_;
  std::uint64_t group_id_ = 0;
  std::vector<int> others_;           // the ranks on other hosts, by their ranks in the world
  std::unique_ptr<Notices> notices_;  // null where there is one host
  Ballots ballots_;
  ExchangeMemory exchange_memory_;
  std::unique_ptr<const AgreementParts> agreement_parts_;
  std::uint64_t agreements_ = 0;
  std::atomic<bool> is_disputed_{false};
  std::function<void(const Failure&)> end_engines_;
  std::atomic<bool> ended_engines_{false};
  std::atomic<base::Clock::time_point> next_telling_{};
};

}  // namespace unisono::coordination

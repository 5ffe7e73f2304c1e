#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordination/coordination.h"
#include "coordination/failure_attribution.h"
#include "coordination/watchdog.h"
#include "schedule/algorithm.h"
#include "schedule/blocking_calls.h"
#include "schedule/measured_networks.h"
#include "schedule/schedule.h"
#include "schedule/scratch.h"
#include "unisono/call.h"
#include "unisono/engine.h"
#include "unisono/task.h"

namespace unisono::schedule {

class Calibration;
class ScheduledTask;

/// The engines of a group.
struct Engines {
  std::shared_ptr<Engine> group;   ///< of all ranks of the group
  std::shared_ptr<Engine> rail;    ///< of this rank's rail; null where there is none, or the group has one level
  std::shared_ptr<Engine> device;  ///< of all ranks, for memory of devices; null where there is none
};

/// Carries out the collectives of a group: asks coordination whether a call may go on (unless the engine compares calls itself), lets a schedule be
/// chosen, and carries out its steps on the engines. One thread at a time may use it.
class Executor {
 public:
  Executor(coordination::Coordination& coordination, Engines engines, SharedNetworks networks = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  std::string_view name() const noexcept { return engines_.group->name(); }
  coordination::Coordination& coordination() { return coordination_; }
  /// Returns the engine of all ranks for host memory.
  Engine& engine() const { return *engines_.group; }
  const std::shared_ptr<Engine>& device_engine() const { return engines_.device; }

  /// Returns in a line the parameters by which schedules are chosen now, and where they come from.
  std::string describe_network() const;
  /// Returns for each operation, as text, which algorithm carries it out from which size on (describe_table).
  std::vector<std::pair<std::string, std::string>> describe_choices() const;

  /// Carries out a call for a thread that waits. Throws Mismatch; throws GroupFailure where the group is over.
  void run(const CollectiveCall& call, Waiter& waiter);
  /// The group's engine where it compares calls itself, else null. It carries out every call by itself; `run` only hands calls on to it.
  Engine* comparing_engine() const { return compares_itself_ ? engines_.group.get() : nullptr; }
  std::unique_ptr<Task> start(const CollectiveCall& call);
  /// Returns true where the engine of devices carries the call out. Any other call on memory of devices goes through host memory, so the answer must
  /// be the same on all ranks.
  bool offers_on_device(const CollectiveCall& call) const { return engines_.device && engines_.device->offers(call); }
  /// Starts a call on memory of devices that the engine of devices offers: the ranks agree first.
  std::unique_ptr<Task> start_on_device(const CollectiveCall& call);
  /// Ends the engines after a failure, once.
  void abort(const Failure& failure) noexcept;
  /// End the engines of a group that ends in order: that of devices before the peers are told that this rank leaves, the others afterwards.
  void leave_device();
  void leave();

 private:
  friend class ScheduledTask;
  friend class Calibration;
  friend class CarriedSum;
  class CallTask;

  const std::shared_ptr<Engine>& engine_of(Level level) const;
  Problem problem_of(const CollectiveCall& call) const;
  Schedule schedule_of(const CollectiveCall& call) const;
  Setting setting() const;
  std::optional<coordination::Carried::Pattern> pattern_of(const CollectiveCall& call);
  /// Returns true where the collectives are schedules over the engine's channels.
  bool is_composed() const;
  /// Returns true where the elements of a call leave while the ranks compare their calls (early_call.h).
  bool is_early(const CollectiveCall& call) const;
  /// Returns true where the network is to be measured before a schedule is chosen. All ranks that have agreed on a call get the same answer.
  bool needs_calibration() const { return !network_ && !coordination_.is_one_host(); }
  void set_network(const Calibration& calibration);
  /// Tells whether an earlier group may have measured; all ranks get the same answer.
  bool may_know_network() const { return networks_.measured && networks_.may_be_known; }
  std::optional<NetworkParameters> network_of_earlier_group() const { return networks_.measured->find(name(), networks_.hosts); }
  void compare_counts(const CollectiveCall& call, Waiter& waiter);
  void run_steps(ScheduledTask& steps, bool may_block, Waiter& waiter);
  void run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter);
  std::unique_ptr<Task> start_on(const std::shared_ptr<Engine>& engine, const CollectiveCall& call);
  std::unique_ptr<Task> start_counts(const CollectiveCall& gather);
  coordination::FailureAttribution attribution_of_engine() const;
  BlockingCalls& blocking_calls();

  coordination::Coordination& coordination_;
  Engines engines_;               // shared with calls in which a thread of ours may still be
  std::shared_ptr<Engine> host_;  // of the ranks of this host; null where this rank is alone there
  bool compares_itself_;
  SharedNetworks networks_;
  std::optional<NetworkParameters> network_;  ///< the parameters by which schedules are compared, once they are known
  std::string_view origin_of_network_;        ///< in words
  std::unique_ptr<coordination::Watchdog> watchdog_;
  std::unique_ptr<BlockingCalls> blocking_calls_;  // for asynchronous calls of an engine that can only block
  Scratch scratch_;
  std::atomic<bool> is_over_{false};
};

}  // namespace unisono::schedule

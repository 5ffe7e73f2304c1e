#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "coordination/coordination.h"
#include "coordination/failure_attribution.h"
#include "coordination/watchdog.h"
#include "schedule/blocking_calls.h"
#include "schedule/schedule.h"
#include "schedule/scratch.h"
#include "unisono/call.h"
#include "unisono/engine.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// The engines of a group.
struct Engines {
  std::shared_ptr<Engine> group;   ///< of all its ranks
  std::shared_ptr<Engine> rail;    ///< of this rank's rail; null where there is none, or the group has one level
  std::shared_ptr<Engine> device;  ///< of all its ranks, for memory of devices; null where there is none
};

/// Carries out the collectives of a group: asks coordination whether a call may go on, unless the engine compares calls itself, has a schedule
/// chosen, and takes its steps on the engines. One thread at a time.
class Executor {
 public:
  Executor(coordination::Coordination& coordination, Engines engines);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  std::string_view name() const noexcept { return engines_.group->name(); }
  coordination::Coordination& coordination() { return coordination_; }
  /// The engine of host memory, of all ranks.
  Engine& engine() const { return *engines_.group; }
  const std::shared_ptr<Engine>& device_engine() const { return engines_.device; }

  /// For a caller that waits. Throws Mismatch; GroupFailure where the group is over.
  void run(const CollectiveCall& call, Waiter& waiter) {
    if (compares_itself_) [[likely]]
      return engines_.group->carry_out(call, waiter);
    run_scheduled(call, waiter);
  }
  std::unique_ptr<Task> start(const CollectiveCall& call);
  /// Whether a call on memory of devices is carried out there. One that is not goes through the host's memory, so this depends on nothing in which
  /// ranks may differ.
  bool offers_on_device(const CollectiveCall& call) const { return engines_.device && engines_.device->offers(call); }
  /// A call on memory of devices, which the engine of devices offers: first the ranks agree, then the engine has it.
  std::unique_ptr<Task> start_on_device(const CollectiveCall& call);
  /// Ends the engines, once.
  void abort(const Failure& failure) noexcept;
  /// The group ends in order: of the engine of devices, before the peers are told that this rank leaves; of the others.
  void leave_device();
  void leave();

 private:
  friend class ScheduledTask;
  class CallTask;

  const std::shared_ptr<Engine>& engine_of(Level level) const;
  Problem problem_of(const CollectiveCall& call) const;
  Schedule schedule_of(const CollectiveCall& call) const;
  void run_scheduled(const CollectiveCall& call, Waiter& waiter);
  void compare_counts(const CollectiveCall& call, Waiter& waiter);
  void run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter);
  std::unique_ptr<Task> start_on(const std::shared_ptr<Engine>& engine, const CollectiveCall& call);
  std::unique_ptr<Task> start_counts(const CollectiveCall& gather);
  coordination::FailureAttribution attribution_of_engine() const;
  BlockingCalls& blocking_calls();

  coordination::Coordination& coordination_;
  Engines engines_;               // shared with calls that a thread of ours may still be in
  std::shared_ptr<Engine> host_;  // of the ranks of this host; null where this rank is alone there
  bool compares_itself_;
  std::unique_ptr<coordination::Watchdog> watchdog_;
  std::unique_ptr<BlockingCalls> blocking_calls_;  // on behalf of asynchronous calls, where an engine can only block
  Scratch scratch_;
  std::atomic<bool> is_over_{false};
};

}  // namespace unisono::schedule

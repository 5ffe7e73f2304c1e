#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string_view>

#include "coordination/coordination.h"
#include "coordination/watchdog.h"
#include "schedule/level_engines.h"
#include "schedule/schedule_choice.h"
#include "unisono/call.h"
#include "unisono/engine.h"
#include "unisono/task.h"

namespace unisono::schedule {

class ScheduledTask;

/// Carries out the collectives of a group: asks coordination whether a call may go on (unless the engine compares calls itself), lets a schedule be
/// chosen, and carries out its steps on the engines. One thread at a time may use it.
class Executor {
 public:
  Executor(coordination::Coordination& coordination, Engines engines, SharedNetworks networks = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  std::string_view name() const noexcept { return engines_.group().name(); }
  coordination::Coordination& coordination() { return coordination_; }
  /// Returns the engine of all ranks for host memory.
  Engine& engine() const { return engines_.group(); }
  const std::shared_ptr<Engine>& device_engine() const { return engines_.all().device; }

  /// Returns what schedules are chosen by.
  const ScheduleChoice& choice() const { return choice_; }

  /// Carries out a call for a thread that waits. Throws Mismatch; throws GroupFailure where the group is over.
  void run(const CollectiveCall& call, Waiter& waiter);
  /// Returns the group's engine if it compares calls itself and has the operation, else null. `run` only hands such a call on to it.
  Engine* comparing_engine(Operation operation) const { return compared_by_engine_[detail::index_of(operation)] ? &engines_.group() : nullptr; }
  std::unique_ptr<Task> start(const CollectiveCall& call);
  /// Returns true where the engine of devices carries the call out. Any other call on memory of devices goes through host memory, so the answer must
  /// be the same on all ranks.
  bool offers_on_device(const CollectiveCall& call) const { return device_engine() && device_engine()->offers(call); }
  /// Ends the engines after a failure, once.
  void abort(const Failure& failure) noexcept;
  /// End the engines of a group that ends in order: that of devices before the peers are told that this rank leaves, the others afterwards.
  void leave_device();
  void leave();

 private:
  class CallTask;

  void compare_counts(const CollectiveCall& call, Waiter& waiter);
  void run_steps(ScheduledTask& steps, bool may_block, Waiter& waiter);
  void run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter);
  std::unique_ptr<Task> start_counts(const CollectiveCall& gather);

  coordination::Coordination& coordination_;
  std::unique_ptr<coordination::Watchdog> watchdog_;
  LevelEngines engines_;
  std::array<bool, operation_table.size()> compared_by_engine_{};  ///< by operation
  ScheduleChoice choice_;
  std::atomic<bool> is_over_{false};
};

}  // namespace unisono::schedule

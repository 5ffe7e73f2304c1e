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

// The way of a call, with four ranks over connections: 0 and 1 are on one host, 2 and 3 on another. Rank 1 calls all_reduce on 1 MiB, the first call
// of the group. An `Executor::Call` goes through its phases. In each there is one task, which `run` waits for and an asynchronous call advances:
//
//   agreement     pattern_of: so many elements do not travel with the comparison, and the task is that of Coordination::start_agreement. The ranks of
//                 each host compare their calls in shared memory, ranks 0 and 2 by a message each, and then ranks 1 and 3 are told. Rank 1 knows now
//                 that all have come to the same call (CallUnderWay::is_agreed): a rank that leaves from here on has done its part.
//   calibration   needs_calibration, in the first call: ranks 0 and 2 send probes to each other, and all get rank 0's figures (Calibration).
//   counts        none: only operations with counts, such as all_gather_v, have some to compare.
//   steps         schedule_of: by these figures two_levels is the fastest, with recursive_doubling on the rail of ranks 1 and 3. ScheduledTask begins
//                 the waves of rank 1's Schedule one after the other. `share` is the second half of the output, `received` is scratch memory.
//                   wave 0   engine    host   reduce_scatter_v with rank 0    in: input        out: share
//                   wave 1   receive   rail   from rank 3                                      out: received
//                            send      rail   to rank 3                       in: share
//                   wave 2   combine          share with received                              out: share
//                   wave 3   engine    host   all_gather_v with rank 0        in: share        out: output
//
// A call on 8 bytes has one phase, `carried`: the elements travel with the comparison, and each rank combines what has come (CarriedCall). If the
// group's engine compares calls itself, as that of shared memory does, there is none: the call is handed on. If all ranks are on one host and the
// engine blocks, `run` lets the ranks agree and calls the engine.

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
  class Call;
  class StartedCall;

  void run_steps(ScheduledTask& steps, bool may_block, Waiter& waiter);
  void run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter);

  coordination::Coordination& coordination_;
  std::unique_ptr<coordination::Watchdog> watchdog_;
  LevelEngines engines_;
  std::array<bool, operation_table.size()> compared_by_engine_{};  ///< by operation
  ScheduleChoice choice_;
  std::atomic<bool> is_over_{false};
};

}  // namespace unisono::schedule

#include "schedule/executor.h"

#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/error_text.h"
#include "coordination/counts.h"
#include "engines/signature.h"
#include "schedule/calibration.h"
#include "schedule/carried_call.h"
#include "schedule/scheduled_task.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::schedule {

using coordination::Coordination;

namespace {

/// Called with the exception that has left a task, which it rethrows. The group is over: engines are told so while the memory of the task is still
/// there, from which a transfer may be half sent. A Mismatch and callables that differ leave the group as it is, since nothing was moved.
[[noreturn]] void end_before_memory(Coordination& coordination) {
  try {
    throw;
  } catch (const Mismatch&) {
    throw;
  } catch (const engines::CallablesDiffer&) {
    throw;
  } catch (const GroupFailure& over) {
    coordination.poison(over.failure());
    throw;
  } catch (...) {
    const int rank = coordination.rank();
    coordination.poison({.cause = PeerFailed::Cause::aborted,
                         .culprit = rank,
                         .message = fmt::format("rank {} gave up: {}", rank, base::what_of(std::current_exception()))});
    throw;
  }
}

/// Calls `f` with the task that a variant holds, by its own type.
template <class Current, class F>
auto with(Current& current, F&& f) {
  return std::visit(
      [&](auto& task) {
        if constexpr (requires { *task; }) return f(*task);
        else return f(task);
      },
      current);
}

}  // namespace

Executor::Executor(Coordination& coordination, Engines engines, SharedNetworks networks)
    : coordination_(coordination), engines_(coordination, std::move(engines)), choice_(engines_, std::move(networks)) {
  for (std::size_t i = 0; i < operation_table.size() && engines_.group().compares_calls(); ++i) {
    CollectiveCall call;
    call.operation = operation_table[i].operation;
    compared_by_engine_[i] = engines_.group().offers(call);
  }
  if (engines_.group().blocks()) {
    watchdog_ = std::make_unique<coordination::Watchdog>(
        [this](std::chrono::milliseconds patience) { return coordination_.look_for_failures({}, false, patience); },
        [this](const Failure& failure) { coordination_.poison(failure); });
  }
}

Executor::~Executor() = default;

/// A call on its way, and the only place that decides what comes next: `begin_next` goes from one phase to the following one. `run` has it on its
/// stack and waits for the task of each phase; an asynchronous call advances the same tasks.
class Executor::Call : public Task {
 public:
  Call(Executor& executor, const CollectiveCall& call) : executor_(executor), coordination_(executor.coordination_), call_(call) {}

  /// Lets the ranks of one host agree, for a caller that waits. Returns true where all ranks have come with the flag set.
  bool agree(Waiter& waiter, bool flag) {
    under_way_.emplace(coordination_);
    const bool have_all = coordination_.agree(call_, waiter, flag);
    under_way_->is_agreed();
    phase_ = Phase::agreement;
    return have_all;
  }
  /// Begins the next phase; returns false at the end. The first one begins when the call's turn among the group's calls has come.
  bool begin_next() {
    switch (std::exchange(phase_, Phase::done)) {
      case Phase::waiting:
        under_way_.emplace(coordination_);
        begin_agreement();
        return true;
      case Phase::carried:
        gather_ = std::get<CarriedCall>(task_).rest();
        if (gather_) return begin_steps(*gather_);
        break;
      case Phase::agreement:
        if (counts_) counts_->judge(carried_counts_, coordination_.topology());
        under_way_->is_agreed();
        if (!executor_.choice_.needs_calibration()) return begin_counts();
        task_.emplace<Calibration>(executor_.engines_, executor_.choice_);
        phase_ = Phase::calibration;
        return true;
      case Phase::calibration: {
        const Calibration& calibration = std::get<Calibration>(task_);
        executor_.choice_.set_network(calibration.result(), calibration.was_known());
        return begin_counts();
      }
      case Phase::counts: counts_->judge(); return begin_steps(call_);
      case Phase::steps:
      case Phase::done: break;
    }
    under_way_.reset();
    return false;
  }
  /// The task of the phase.
  using Current = std::variant<std::unique_ptr<Task>, CarriedCall, Calibration, ScheduledTask>;
  Current& current() { return task_; }

  bool advance() override {
    for (;;) {
      if (has_task() && !with(task_, [](auto& task) { return task.advance(); })) return false;
      if (!begin_next()) return true;
    }
  }
  std::vector<int> waiting_for() const override {
    return has_task() ? with(task_, [](const auto& task) { return task.waiting_for(); }) : std::vector<int>();
  }
  bool wakes_waiter() const override {
    return !has_task() || with(task_, [](const auto& task) { return task.wakes_waiter(); });
  }
  bool sleep(std::chrono::nanoseconds at_most) override {
    return has_task() && with(task_, [&](auto& task) { return task.sleep(at_most); });
  }

 private:
  enum class Phase { waiting, carried, agreement, calibration, counts, steps, done };

  bool has_task() const { return phase_ != Phase::waiting && phase_ != Phase::done; }
  /// Elements, or counts, that travel with the comparison of the calls leave with it.
  void begin_agreement() {
    if (const auto pattern = executor_.choice_.pattern_of(call_)) {
      task_.emplace<CarriedCall>(coordination_, call_, *pattern);
      phase_ = Phase::carried;
      return;
    }
    if (has_counts(call_.operation) && counts_travel(call_, coordination_.topology())) {
      counts_.emplace(call_, coordination_.rank(), coordination_.size());
      carried_counts_ = counts_->carried();
    }
    task_ = coordination_.start_agreement(call_, counts_ ? &carried_counts_ : nullptr);
    phase_ = Phase::agreement;
  }
  /// Begins the comparison of counts that have not travelled.
  bool begin_counts() {
    if (!has_counts(call_.operation) || counts_) return begin_steps(call_);
    executor_.engines_.scratch().reset();
    counts_.emplace(call_, coordination_.rank(), coordination_.size());
    gather_ = counts_->gather();
    task_.emplace<std::unique_ptr<Task>>();  // the task before ends first
    if (coordination_.is_one_host()) task_ = coordination_.host_engine()->start(*gather_);
    else task_.emplace<ScheduledTask>(executor_.engines_, *gather_, executor_.choice_.schedule_of(*gather_));
    phase_ = Phase::counts;
    return true;
  }
  bool begin_steps(const CollectiveCall& of) {
    executor_.engines_.scratch().reset();
    task_.emplace<ScheduledTask>(executor_.engines_, of, executor_.choice_.schedule_of(of));
    phase_ = Phase::steps;
    return true;
  }

  Executor& executor_;
  Coordination& coordination_;
  const CollectiveCall& call_;
  std::optional<CollectiveCall> gather_;  ///< of counts, or of shares that have travelled
  Phase phase_ = Phase::waiting;
  std::optional<Coordination::CallUnderWay> under_way_;
  std::optional<coordination::CountsComparison> counts_;
  coordination::Carried carried_counts_;
  Current task_;
};

/// A call that keeps what its caller has given.
struct KeptCall {
  CollectiveCall kept;
};
class Executor::StartedCall final : KeptCall, public Call {
 public:
  StartedCall(Executor& executor, const CollectiveCall& call) : KeptCall{call}, Call(executor, kept) {}
};

void Executor::run(const CollectiveCall& call, Waiter& waiter) {
  if (Engine* const comparing = comparing_engine(call.operation)) return comparing->carry_out(call, waiter);
  Engine& engine = engines_.group();
  // An engine that has both kinds of call may need all ranks to use the same kind.
  bool may_block = engine.blocks() && !engine.starts();
  Call under_way(*this, call);
  if (coordination_.is_one_host()) [[likely]] {
    // A user's callable may throw in the middle of a call, and a blocking call would leave the other ranks waiting then.
    may_block = under_way.agree(waiter, engine.blocks() && !call.custom) || may_block;
    // A call that the engine offers needs no schedule. A barrier has none: the agreement was one.
    if (may_block && call.operation != Operation::barrier && !has_counts(call.operation) && !is_overridden(call.operation) &&
        Abilities(&engine).offers(call, coordination_.size())) {
      return run_blocking(engine, call, waiter);
    }
  }
  while (under_way.begin_next()) {
    try {
      std::visit(
          [&](auto& task) {
            if constexpr (std::is_same_v<decltype(task), ScheduledTask&>) {
              run_steps(task, may_block, waiter);
            } else if constexpr (requires { *task; }) {
              if (!task->advance()) waiter.wait(*task);
            } else if (!task.advance()) {
              waiter.wait(task);
            }
          },
          under_way.current());
    } catch (...) {
      end_before_memory(coordination_);
    }
  }
}

std::unique_ptr<Task> Executor::start(const CollectiveCall& call) {
  if (Engine* const comparing = comparing_engine(call.operation)) return comparing->start(call);
  return std::make_unique<StartedCall>(*this, call);
}

/// Each wave is waited for by itself, so that the waiter spins at its begin.
void Executor::run_steps(ScheduledTask& steps, bool may_block, Waiter& waiter) {
  steps.stop_after_each_wave();
  while (!steps.is_at_end()) {
    if (Engine* const blocking = may_block ? steps.next_that_blocks() : nullptr) {
      run_blocking(*blocking, steps.take_engine_call(), waiter);
      continue;
    }
    steps.begin_wave();
    if (!steps.advance()) waiter.wait(steps);
  }
}

void Executor::run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter) {
  auto attribution = engines_.attribution();
  const bool went_well = attribution.attempt([&] {
    const coordination::Watchdog::Guard guard(*watchdog_, call, waiter.timeout());
    engine.run(call);
  });
  if (!went_well && !attribution.advance()) waiter.wait(attribution);
}

void Executor::abort(const Failure& failure) noexcept {
  if (is_over_.exchange(true)) return;
  for (const auto& engine : {engines_.all().group, engines_.all().rail, engines_.all().device}) {
    if (engine) engine->abort(failure);
  }
}

void Executor::leave_device() {
  if (device_engine() && !coordination_.failure() && !is_over_.load()) device_engine()->leave();
}

void Executor::leave() {
  for (const auto& engine : {engines_.all().group, engines_.all().rail}) {
    if (engine && !coordination_.failure()) engine->leave();
  }
  if (const auto failure = coordination_.failure()) abort(*failure);
}

}  // namespace unisono::schedule

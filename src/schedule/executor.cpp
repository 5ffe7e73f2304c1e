#include "schedule/executor.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "coordination/counts.h"
#include "schedule/calibration.h"
#include "schedule/carried_call.h"
#include "schedule/carried_sum.h"
#include "schedule/early_call.h"
#include "schedule/ending_before_memory.h"
#include "schedule/scheduled_task.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::schedule {
namespace {

/// The steps of a ScheduledTask that have begun, for a caller that waits for them.
class Wave final : public Task {
 public:
  explicit Wave(ScheduledTask& steps) : steps_(steps) {}
  bool advance() override { return steps_.advance_wave(); }
  std::vector<int> waiting_for() const override { return steps_.waiting_for(); }
  bool wakes_waiter() const override { return steps_.wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return steps_.sleep(at_most); }

 private:
  ScheduledTask& steps_;
};

}  // namespace

using coordination::Coordination;
using coordination::CountsComparison;

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

void Executor::run(const CollectiveCall& call, Waiter& waiter) {
  if (Engine* const comparing = comparing_engine(call.operation)) return comparing->carry_out(call, waiter);
  Coordination::CallUnderWay under_way(coordination_);
  Engine& engine = engines_.group();
  // An engine that has both kinds of call may need all ranks to use the same kind.
  bool may_block = engine.blocks() && !engine.starts();
  if (coordination_.is_one_host()) [[likely]] {
    // A user's callable may throw in the middle of a call, and a blocking call would leave the other ranks waiting then.
    may_block = coordination_.agree(call, waiter, engine.blocks() && !call.custom) || may_block;
    under_way.is_agreed();
    // A call that the engine offers needs no schedule. A barrier has none: the agreement was one.
    if (may_block && call.operation != Operation::barrier && !has_counts(call.operation) && !is_overridden(call.operation) &&
        Abilities(&engine).offers(call, coordination_.size())) {
      return run_blocking(engine, call, waiter);
    }
  } else {
    const auto finish = [&](auto& task) {
      ending_before_memory(coordination_, [&] {
        if (!task.advance()) waiter.wait(task);
      });
    };
    const auto pattern = choice_.pattern_of(call);
    if (!pattern && choice_.is_early(call)) {
      EarlyCall task(coordination_, call);
      return finish(task);
    } else if (pattern) {
      if (is_by_shares(call, *pattern)) {
        CarriedSum task(engines_, choice_, call);
        return finish(task);
      }
      CarriedCall task(coordination_, call, *pattern);
      return finish(task);
    }
    if (has_counts(call.operation) && counts_travel(call, coordination_.topology())) {
      CountsAgreement task(coordination_, call);
      finish(task);
    } else {
      const auto task = coordination_.start_agreement(call);
      finish(*task);
    }
    under_way.is_agreed();
    if (choice_.needs_calibration()) {
      Calibration task(engines_, choice_);
      finish(task);
      choice_.set_network(task.result(), task.was_known());
    }
  }
  if (has_counts(call.operation) && !counts_travel(call, coordination_.topology())) compare_counts(call, waiter);
  engines_.scratch().reset();
  ScheduledTask steps(engines_, call, choice_.schedule_of(call));
  ending_before_memory(coordination_, [&] { run_steps(steps, may_block, waiter); });
}

void Executor::run_steps(ScheduledTask& steps, bool may_block, Waiter& waiter) {
  Wave wave(steps);
  while (!steps.is_at_end()) {
    if (Engine* const blocking = may_block ? steps.next_that_blocks() : nullptr) {
      run_blocking(*blocking, steps.take_engine_call(), waiter);
      continue;
    }
    steps.begin_wave();
    if (!wave.advance()) waiter.wait(wave);
  }
}

void Executor::compare_counts(const CollectiveCall& call, Waiter& waiter) {
  CountsComparison comparison(call, coordination_.rank(), coordination_.size());
  const CollectiveCall gather = comparison.gather();
  engines_.scratch().reset();
  const auto task = start_counts(gather);
  if (!task->advance()) waiter.wait(*task);
  comparison.judge();
}

std::unique_ptr<Task> Executor::start_counts(const CollectiveCall& gather) {
  if (coordination_.is_one_host()) return coordination_.host_engine()->start(gather);
  return std::make_unique<ScheduledTask>(engines_, gather, choice_.schedule_of(gather));
}

void Executor::run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter) {
  auto attribution = engines_.attribution();
  const bool went_well = attribution.attempt([&] {
    const coordination::Watchdog::Guard guard(*watchdog_, call, waiter.timeout());
    engine.run(call);
  });
  if (!went_well && !attribution.advance()) waiter.wait(attribution);
}

/// An asynchronous call: the agreement, the comparison of counts, the steps.
class Executor::CallTask final : public Task {
 public:
  CallTask(Executor& executor, const CollectiveCall& call) : executor_(executor), call_(call) {}
  bool advance() override {
    for (;;) {
      if (current_ && !current_->advance()) return false;
      if (!begin_next()) return true;
    }
  }
  std::vector<int> waiting_for() const override { return current_ ? current_->waiting_for() : std::vector<int>(); }
  bool wakes_waiter() const override { return !current_ || current_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return current_ && current_->sleep(at_most); }

 private:
  enum class Phase { waiting, agreement, calibration, counts, steps, done };

  /// Begins the next phase; returns false at the end. The first phase begins when the call's turn among the group's calls has come.
  bool begin_next() {
    if (calibration_ != nullptr) {
      executor_.choice_.set_network(calibration_->result(), calibration_->was_known());
      calibration_ = nullptr;
    }
    current_.reset();
    switch (phase_) {
      case Phase::waiting:
        phase_ = Phase::agreement;
        under_way_.emplace(executor_.coordination_);
        if (const auto pattern = executor_.choice_.pattern_of(call_); !pattern && executor_.choice_.is_early(call_)) {
          phase_ = Phase::steps;
          current_ = std::make_unique<EarlyCall>(executor_.coordination_, call_);
        } else if (pattern) {
          phase_ = Phase::steps;
          if (is_by_shares(call_, *pattern)) current_ = std::make_unique<CarriedSum>(executor_.engines_, executor_.choice_, call_);
          else current_ = std::make_unique<CarriedCall>(executor_.coordination_, call_, *pattern);
        } else if (has_counts(call_.operation) && counts_travel(call_, executor_.coordination_.topology())) {
          current_ = std::make_unique<CountsAgreement>(executor_.coordination_, call_);
        } else {
          current_ = executor_.coordination_.start_agreement(call_);
        }
        return true;
      case Phase::agreement:
        under_way_->is_agreed();
        if (executor_.choice_.needs_calibration()) {
          phase_ = Phase::calibration;
          auto calibration = std::make_unique<Calibration>(executor_.engines_, executor_.choice_);
          calibration_ = calibration.get();
          current_ = std::move(calibration);
          return true;
        }
        return begin_counts();
      case Phase::calibration: return begin_counts();
      case Phase::counts: counts_->judge(); return begin_steps();
      case Phase::steps:
      case Phase::done: break;
    }
    phase_ = Phase::done;
    under_way_.reset();
    return false;
  }
  bool begin_counts() {
    executor_.engines_.scratch().reset();
    if (!has_counts(call_.operation) || counts_travel(call_, executor_.coordination_.topology())) return begin_steps();
    phase_ = Phase::counts;
    counts_.emplace(call_, executor_.coordination_.rank(), executor_.coordination_.size());
    gather_ = counts_->gather();
    current_ = executor_.start_counts(gather_);
    return true;
  }
  bool begin_steps() {
    phase_ = Phase::steps;
    current_ = std::make_unique<ScheduledTask>(executor_.engines_, call_, executor_.choice_.schedule_of(call_));
    return true;
  }

  Executor& executor_;
  CollectiveCall call_, gather_;
  Phase phase_ = Phase::waiting;
  std::optional<Coordination::CallUnderWay> under_way_;
  std::optional<CountsComparison> counts_;
  std::unique_ptr<Task> current_;
  const Calibration* calibration_ = nullptr;  ///< where it is the current task
};

std::unique_ptr<Task> Executor::start(const CollectiveCall& call) {
  if (Engine* const comparing = comparing_engine(call.operation)) return comparing->start(call);
  return std::make_unique<CallTask>(*this, call);
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

#include "schedule/executor.h"

#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "coordination/counts.h"
#include "schedule/algorithm.h"
#include "schedule/calibration.h"
#include "schedule/carried_call.h"
#include "schedule/carried_sum.h"
#include "schedule/device_call.h"
#include "schedule/early_call.h"
#include "schedule/ending_before_memory.h"
#include "schedule/network_override.h"
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
    : coordination_(coordination),
      engines_(std::move(engines)),
      host_(coordination.host_engine()),
      compares_itself_(engines_.group->compares_calls()),
      networks_(std::move(networks)),
      network_(parse_network(network_override())) {
  if (network_) {
    origin_of_network_ = "given by UNISONO_NETWORK";
  } else {
    origin_of_network_ = "assumed";
    if (!is_composed()) network_.emplace();
  }
  if (engines_.group->blocks()) {
    watchdog_ = std::make_unique<coordination::Watchdog>(
        [this](std::chrono::milliseconds patience) { return coordination_.look_for_failures({}, false, patience); },
        [this](const Failure& failure) { coordination_.poison(failure); });
  }
}

Executor::~Executor() {
  blocking_calls_.reset();
  watchdog_.reset();
}

// An engine with collectives of its own leaves little to choose.
bool Executor::is_composed() const {
  const Problem sum{.operation = Operation::all_reduce, .dtype = DType::float32, .size = coordination_.size(), .count = 1};
  return engines_.group->has_channels() && !engines_.group->blocks() && !Abilities(engines_.group.get()).offers(sum);
}

const std::shared_ptr<Engine>& Executor::engine_of(Level level) const {
  switch (level) {
    case Level::host: return host_;
    case Level::rail: return engines_.rail;
    default: return engines_.group;
  }
}

// An engine's own error text is used where no peer is found that caused the failure.
coordination::FailureAttribution Executor::attribution_of_engine() const { return {coordination_, {.engine = engines_.group->name()}}; }

Problem Executor::problem_of(const CollectiveCall& call) const {
  Problem problem;
  problem.operation = call.operation;
  problem.dtype = call.in.dtype();
  problem.op = call.op;
  problem.is_custom = call.custom != nullptr;
  problem.is_deterministic = call.deterministic;
  problem.is_in_place = call.in.data() == call.out.data();
  problem.rank = coordination_.rank();
  problem.size = coordination_.size();
  problem.root = call.root;
  problem.count = call.count;
  problem.counts = call.counts;
  problem.recv_counts = call.recv_counts;
  problem.in = {Slice::Memory::input, 0, static_cast<std::size_t>(call.in.numel())};
  problem.out = {Slice::Memory::output, 0, static_cast<std::size_t>(call.out.numel())};
  return problem;
}

Schedule Executor::schedule_of(const CollectiveCall& call) const {
  Schedule schedule;
  if (call.operation == Operation::barrier) return schedule;  // the agreement was one
  const detail::FixedFloatingPoint fixed;                     // all ranks choose the same algorithm
  Builder builder(schedule);
  schedule.algorithm = build(problem_of(call), setting(), builder);
  return schedule;
}

void Executor::run(const CollectiveCall& call, Waiter& waiter) {
  if (compares_itself_) return engines_.group->carry_out(call, waiter);
  Coordination::CallUnderWay under_way(coordination_);
  Engine& engine = *engines_.group;
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
    const auto pattern = pattern_of(call);
    if (!pattern && is_early(call)) {
      EarlyCall task(coordination_, call);
      return finish(task);
    } else if (pattern) {
      if (is_by_shares(call, *pattern)) {
        CarriedSum task(*this, call);
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
    if (needs_calibration()) {
      Calibration task(*this);
      finish(task);
      set_network(task);
    }
  }
  if (has_counts(call.operation) && !counts_travel(call, coordination_.topology())) compare_counts(call, waiter);
  scratch_.reset();
  ScheduledTask steps(*this, call, schedule_of(call));
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

Setting Executor::setting() const {
  return {.engine = Abilities(engines_.group.get()),
          .rail = Abilities(engines_.rail.get()),
          .topology = &coordination_.topology(),
          .network = network_.value_or(NetworkParameters())};
}

std::optional<coordination::Carried::Pattern> Executor::pattern_of(const CollectiveCall& call) {
  const detail::FixedFloatingPoint fixed;
  const auto pattern = pattern_with_agreement(call, problem_of(call), setting());
  const bool is_direct = pattern && *pattern != coordination::Carried::Pattern::to_all;
  return is_direct && needs_calibration() ? std::nullopt : pattern;  // which way is the faster one has to be measured
}

bool Executor::is_early(const CollectiveCall& call) const {
  const detail::FixedFloatingPoint fixed;
  return network_ && leaves_early(call, problem_of(call), setting(), coordination_.connects_all());
}

void Executor::compare_counts(const CollectiveCall& call, Waiter& waiter) {
  CountsComparison comparison(call, coordination_.rank(), coordination_.size());
  const CollectiveCall gather = comparison.gather();
  scratch_.reset();
  const auto task = start_counts(gather);
  if (!task->advance()) waiter.wait(*task);
  comparison.judge();
}

std::unique_ptr<Task> Executor::start_counts(const CollectiveCall& gather) {
  if (coordination_.is_one_host()) return coordination_.host_engine()->start(gather);
  return std::make_unique<ScheduledTask>(*this, gather, schedule_of(gather));
}

void Executor::run_blocking(Engine& engine, const CollectiveCall& call, Waiter& waiter) {
  auto attribution = attribution_of_engine();
  const bool went_well = attribution.attempt([&] {
    const coordination::Watchdog::Guard guard(*watchdog_, call, waiter.timeout());
    engine.run(call);
  });
  if (!went_well && !attribution.advance()) waiter.wait(attribution);
}

// All ranks have agreed on the call by now, and the others are in it: they are told where this rank cannot begin it.
BlockingCalls& Executor::blocking_calls() {
  if (blocking_calls_) return *blocking_calls_;
  const auto give_up = [this](const std::string& why) {
    coordination_.poison({.kind = Failure::Kind::peer_failed,
                          .cause = PeerFailed::Cause::aborted,
                          .culprit = coordination_.rank(),
                          .missing = {},
                          .message = fmt::format("rank {} has given up a call that was under way{}", coordination_.rank(), why)});
  };
  try {
    blocking_calls_ = std::make_unique<BlockingCalls>(coordination_.notifier(), [give_up] { give_up(""); });
  } catch (const Error& error) {
    give_up(": " + error.message());
    throw;
  }
  return *blocking_calls_;
}

std::unique_ptr<Task> Executor::start_on(const std::shared_ptr<Engine>& engine, const CollectiveCall& call) {
  if (engine->starts()) return engine->start(call);
  return blocking_calls().run(engine, call);
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
    if (calibration_ != nullptr) executor_.set_network(*std::exchange(calibration_, nullptr));
    current_.reset();
    switch (phase_) {
      case Phase::waiting:
        phase_ = Phase::agreement;
        under_way_.emplace(executor_.coordination_);
        if (const auto pattern = executor_.pattern_of(call_); !pattern && executor_.is_early(call_)) {
          phase_ = Phase::steps;
          current_ = std::make_unique<EarlyCall>(executor_.coordination_, call_);
        } else if (pattern) {
          phase_ = Phase::steps;
          if (is_by_shares(call_, *pattern)) current_ = std::make_unique<CarriedSum>(executor_, call_);
          else current_ = std::make_unique<CarriedCall>(executor_.coordination_, call_, *pattern);
        } else if (has_counts(call_.operation) && counts_travel(call_, executor_.coordination_.topology())) {
          current_ = std::make_unique<CountsAgreement>(executor_.coordination_, call_);
        } else {
          current_ = executor_.coordination_.start_agreement(call_);
        }
        return true;
      case Phase::agreement:
        under_way_->is_agreed();
        if (executor_.needs_calibration()) {
          phase_ = Phase::calibration;
          auto calibration = std::make_unique<Calibration>(executor_);
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
    executor_.scratch_.reset();
    if (!has_counts(call_.operation) || counts_travel(call_, executor_.coordination_.topology())) return begin_steps();
    phase_ = Phase::counts;
    counts_.emplace(call_, executor_.coordination_.rank(), executor_.coordination_.size());
    gather_ = counts_->gather();
    current_ = executor_.start_counts(gather_);
    return true;
  }
  bool begin_steps() {
    phase_ = Phase::steps;
    current_ = std::make_unique<ScheduledTask>(executor_, call_, executor_.schedule_of(call_));
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
  if (compares_itself_) return engines_.group->start(call);
  return std::make_unique<CallTask>(*this, call);
}

std::unique_ptr<Task> Executor::start_on_device(const CollectiveCall& call) { return std::make_unique<DeviceCallTask>(*this, call); }

void Executor::abort(const Failure& failure) noexcept {
  if (is_over_.exchange(true)) return;
  for (const auto& engine : {engines_.group, engines_.rail, engines_.device}) {
    if (engine) engine->abort(failure);
  }
}

void Executor::leave_device() {
  if (engines_.device && !coordination_.failure() && !is_over_.load()) engines_.device->leave();
}

void Executor::leave() {
  for (const auto& engine : {engines_.group, engines_.rail}) {
    if (engine && !coordination_.failure()) engine->leave();
  }
  if (const auto failure = coordination_.failure()) abort(*failure);
}

}  // namespace unisono::schedule

#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "schedule/level_engines.h"

namespace unisono::schedule {

/// Combines versions of the same elements from left to right: by the call's callable, else by `op`, of which an average divides by `divisor`. `out`
/// may be one of them; with a callable only the first.
void combine_all(const CollectiveCall& call, void* out, std::span<const void* const> inputs, std::size_t count, ReduceOp op, std::size_t divisor);

/// The steps of one call on this rank, advanced without waiting. FailureAttribution investigates an exception of an engine's step; an exception of a
/// user's callable in a local step passes through.
class ScheduledTask final : public Task {
 public:
  /// `call` must live as long as the task; the slices refer to its memory.
  ScheduledTask(LevelEngines& engines, const CollectiveCall& call, Schedule schedule);

  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool wakes_waiter() const override;
  bool sleep(std::chrono::nanoseconds at_most) override;

  bool is_at_end() const { return next_ == schedule_.steps.size(); }
  /// Begins the steps of the next wave together. The calls of engines become tasks; local steps are carried out at once.
  void begin_wave();
  /// From now on `advance` returns true at the end of each wave, and the caller begins the next one.
  void stop_after_each_wave() { stops_ = true; }
  /// Returns the engine of the next step where that step is a call of all the group's or the rail's ranks and the engine can block, else null.
  Engine* next_that_blocks() const;
  /// Returns the call of the next step, which the caller carries out.
  CollectiveCall take_engine_call() { return engine_call(schedule_.steps[next_++]); }

 private:
  struct Active {
    Level level;
    int peer;  // of a send or receive; -1: the task names the ranks it waits for
    std::unique_ptr<Task> task;
  };
  bool advance_wave();
  CollectiveCall engine_call(const Step& step) const;
  TensorView tensor(const Slice& slice) const;
  std::byte* address(const Slice& slice) const;
  void reduce(const Step& step) const;
  void combine(const Step& step) const;
  void carry_out_here(const Step& step) const;
  std::vector<int> names_of(const Active& active) const;

  LevelEngines& engines_;
  const CollectiveCall& call_;
  Schedule schedule_;
  std::byte* scratch_ = nullptr;
  std::size_t next_ = 0;  // the first step that has not begun
  std::vector<Active> active_;
  bool stops_ = false;
  coordination::FailureAttribution attribution_;
};

}  // namespace unisono::schedule

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "schedule/executor.h"

namespace unisono::schedule {

/// The steps of one call on this rank, advanced without waiting. FailureAttribution investigates an exception of an engine's step; an exception of a
/// user's callable in a local step passes through.
class ScheduledTask final : public Task {
 public:
  /// `call` must live as long as the task; the slices refer to its memory.
  ScheduledTask(Executor& executor, const CollectiveCall& call, Schedule schedule);

  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool wakes_waiter() const override;

  /// Carries out the steps for a thread that waits. With `may_block`, an engine that can only block runs in this thread, under the watchdog.
  void run(Waiter& waiter, bool may_block);

 private:
  struct Active {
    Level level;
    int peer;  // of a send or receive; -1: the task names the ranks it waits for
    std::unique_ptr<Task> task;
  };
  bool is_at_end() const { return next_ == schedule_.steps.size(); }
  bool has_begun_wave() const { return !active_.empty(); }
  void begin_wave();
  void begin(const Step& step);
  bool advance_active();
  CollectiveCall engine_call(const Step& step) const;
  TensorView tensor(const Slice& slice) const;
  std::byte* address(const Slice& slice) const;
  void reduce(const Step& step) const;
  void carry_out_here(const Step& step) const;
  std::vector<int> names_of(const Active& active) const;

  Executor& executor_;
  const CollectiveCall& call_;
  Schedule schedule_;
  std::byte* scratch_ = nullptr;
  std::size_t next_ = 0;  // the first step that has not begun
  std::vector<Active> active_;
  coordination::FailureAttribution attribution_;
};

}  // namespace unisono::schedule

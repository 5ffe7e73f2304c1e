#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "schedule/executor.h"

namespace unisono::schedule {

/// The steps of one call on this rank, driven without waiting. What an engine's step throws is looked into by FailureAttribution; what a callable of
/// the user's throws in a step of this rank's own goes through.
class ScheduledTask final : public Task {
 public:
  /// `call` must live as long as the task; its memory is that of the slices.
  ScheduledTask(Executor& executor, const CollectiveCall& call, Schedule schedule);

  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool wakes_waiter() const override;

  /// For a caller that waits: engines that can only block carry their steps out in its thread (`may_block`), under the watchdog.
  void run(Waiter& waiter, bool may_block);

 private:
  struct Active {
    Level level;
    int peer;  // of a send or receive; -1: the task knows whom it waits for
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

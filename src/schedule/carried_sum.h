#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "coordination/coordination.h"
#include "schedule/level_engines.h"
#include "schedule/schedule_choice.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// An all_reduce by shares of which the first step travels with the comparison of the calls: every rank gets all versions of its share from the
/// others, combines them from left to right, and sends the result to all by a schedule.
class CarriedSum final : public Task {
 public:
  CarriedSum(LevelEngines& engines, const ScheduleChoice& choice, const CollectiveCall& call);

  bool advance() override;
  std::vector<int> waiting_for() const override { return current_->waiting_for(); }
  bool wakes_waiter() const override { return current_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return current_->sleep(at_most); }

 private:
  void combine_share();
  void begin_gather();
  std::size_t begin_of(int rank) const;  ///< bytes

  LevelEngines& engines_;
  const ScheduleChoice& choice_;
  const CollectiveCall& call_;
  coordination::Carried carried_;
  std::vector<std::byte> own_;  ///< a copy of this rank's version, where the result of a callable takes its place
  CollectiveCall gather_;
  std::unique_ptr<Task> current_;
  bool has_agreed_ = false, is_done_ = false;
};

}  // namespace unisono::schedule

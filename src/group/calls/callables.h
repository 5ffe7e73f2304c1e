#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "group/group_core.h"
#include "unisono/call.h"

namespace unisono::group {

/// Compares the callables of a call by what they do, after the call has thrown CallablesDiffer on every rank. Each rank gives a few of its elements
/// to all, applies its callable to every pair of the elements that it got, and gives the results to all. It throws Mismatch on every rank where they
/// differ. Else the callable of `call` counts as the same on all ranks from then on. `call` has contiguous views and lives as long as the task.
class CallableTrial final : public Task {
 public:
  CallableTrial(GroupCore& core, CollectiveCall& call);
  ~CallableTrial() override;
  bool advance() override;
  std::vector<int> waiting_for() const override { return current_->waiting_for(); }
  bool wakes_waiter() const override { return current_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return current_->sleep(at_most); }

 private:
  struct Sample;
  struct Results;
  void gather(const void* mine, void* all, std::size_t bytes);
  void take_samples();
  void choose_operands();
  void apply();
  void judge() const;
  std::size_t ranks() const;

  GroupCore& core_;
  CollectiveCall& call_;
  CollectiveCall gather_;
  std::vector<Sample> samples_;
  std::vector<Results> results_;
  std::vector<std::byte> operands_;
  bool has_results_ = false;
  std::unique_ptr<Task> current_;
};

/// Starts a collective on contiguous memory of the host. A callable of the program's is compared by what it does where it has to be.
std::unique_ptr<Task> start_collective(GroupCore& core, const CollectiveCall& call);

/// Does the same for a caller that waits.
void run_collective(GroupCore& core, CollectiveCall& call, Waiter& waiter);

}  // namespace unisono::group

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "coordination/coordination.h"
#include "coordination/counts.h"
#include "schedule/algorithm.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// Returns how the elements of a call between hosts travel with the comparison of the calls; nothing where they do not. All ranks get the same
/// answer. So few that a second exchange would take longer go to all ranks. Elements that every rank sends to every other one go directly, where no
/// schedule after the comparison is predicted to be faster.
std::optional<coordination::Carried::Pattern> pattern_with_agreement(const CollectiveCall& call, const Problem& problem, const Setting& setting);

/// Tells whether an all_reduce goes by shares (carried_sum.h).
inline bool is_by_shares(const CollectiveCall& call, coordination::Carried::Pattern pattern) {
  return call.operation == Operation::all_reduce && pattern == coordination::Carried::Pattern::blocks;
}

/// Returns what a rank gives to the others, in that way.
coordination::Carried contributions_to(const CollectiveCall& call, int ranks, int rank, coordination::Carried::Pattern pattern);

/// Tells whether the counts of a call between hosts travel with the comparison of the calls.
bool counts_travel(const CollectiveCall& call, const coordination::GroupTopology& topology);

/// A call whose elements travel with the comparison of the calls. Every rank gets the contributions of all ranks, or what is for it, and makes its
/// own result of them; sums are formed from left to right.
class CarriedCall final : public Task {
 public:
  CarriedCall(coordination::Coordination& coordination, const CollectiveCall& call, coordination::Carried::Pattern pattern);

  bool advance() override;
  std::vector<int> waiting_for() const override { return agreement_->waiting_for(); }
  bool wakes_waiter() const override { return agreement_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return agreement_->sleep(at_most); }

 private:
  void move_elements() const;
  void reduce_elements();
  /// Returns what a rank has contributed for this one; `offset` bytes into the contribution where it went to all ranks.
  const std::byte* from(int rank, std::size_t offset) const;
  std::size_t rank() const { return static_cast<std::size_t>(coordination_.rank()); }

  coordination::Coordination& coordination_;
  const CollectiveCall& call_;
  coordination::Carried carried_;
  std::unique_ptr<Task> agreement_;
  std::vector<std::byte> own_;  ///< a copy of this rank's contribution, where the result takes its place
  bool is_done_ = false;
};

/// The agreement on a call with counts, with which the counts travel.
class CountsAgreement final : public Task {
 public:
  CountsAgreement(coordination::Coordination& coordination, const CollectiveCall& call);

  /// Throws Mismatch where the counts do not fit together.
  bool advance() override;
  std::vector<int> waiting_for() const override { return agreement_->waiting_for(); }
  bool wakes_waiter() const override { return agreement_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return agreement_->sleep(at_most); }

 private:
  coordination::Coordination& coordination_;
  coordination::CountsComparison comparison_;
  CollectiveCall gather_;
  coordination::Carried carried_;
  std::unique_ptr<Task> agreement_;
  bool is_done_ = false;
};

}  // namespace unisono::schedule

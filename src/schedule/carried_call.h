#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "coordination/coordination.h"
#include "schedule/algorithm.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// Returns how the elements of a call between hosts travel with the comparison of the calls; nothing where they do not. All ranks get the same
/// answer. So few that a second exchange would take longer go to all ranks. More of them go directly to the ranks that need them, if no schedule
/// after the comparison is predicted to be faster.
std::optional<coordination::Carried::Pattern> pattern_with_agreement(const CollectiveCall& call, const Problem& problem, const Setting& setting);

/// Tells whether an all_reduce goes by shares: every rank gets all versions of its share.
inline bool is_by_shares(const CollectiveCall& call, coordination::Carried::Pattern pattern) {
  return call.operation == Operation::all_reduce && pattern == coordination::Carried::Pattern::blocks;
}

/// Returns what a rank gives to the others, in that way.
coordination::Carried contributions_to(const CollectiveCall& call, int ranks, int rank, coordination::Carried::Pattern pattern);

/// Tells whether the counts of a call between hosts travel with the comparison of the calls.
bool counts_travel(const CollectiveCall& call, const coordination::GroupTopology& topology);

/// A call whose elements travel with the comparison of the calls. Every rank gets the contributions of all ranks, or what is for it, and makes its
/// own result of them; sums are formed from left to right. An all_reduce by shares makes the sum of one share: `rest` hands it out.
class CarriedCall final : public Task {
 public:
  CarriedCall(coordination::Coordination& coordination, const CollectiveCall& call, coordination::Carried::Pattern pattern);

  bool advance() override;
  std::vector<int> waiting_for() const override { return agreement_->waiting_for(); }
  bool wakes_waiter() const override { return agreement_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return agreement_->sleep(at_most); }

  /// Returns the call that has to follow once this one is done, an all_gather_v of the shares; most often none.
  std::optional<CollectiveCall> rest() const;

 private:
  void move_elements() const;
  void reduce_elements();
  /// Returns what a rank has contributed for this one; `offset` bytes into the contribution where it went to all ranks.
  const std::byte* from(int rank, std::size_t offset) const;
  bool has_shares() const { return is_by_shares(call_, carried_.pattern); }
  std::size_t begin_of_share(std::size_t rank) const { return std::min(rank * carried_.each, carried_.own.size()); }
  std::size_t rank() const { return static_cast<std::size_t>(topology_.rank); }

  const CollectiveCall& call_;
  const coordination::GroupTopology& topology_;
  coordination::Carried carried_;
  std::unique_ptr<Task> agreement_;
  std::vector<std::byte> own_;  ///< a copy of this rank's contribution, where the result takes its place
  bool is_done_ = false;
};

}  // namespace unisono::schedule

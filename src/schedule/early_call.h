#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "coordination/coordination.h"
#include "schedule/algorithm.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// Returns true for a call whose elements should leave while the ranks still compare their calls: an all_to_all among several ranks of each host,
/// directly. Where ranks share processors they come one after the other, and what the early ones can send is sent when the last one comes. All ranks
/// get the same answer.
bool leaves_early(const CollectiveCall& call, const Problem& problem, const Setting& setting, bool connects_all);

/// Such a call. What comes is kept until all ranks have agreed, and only then handed out.
class EarlyCall final : public Task {
 public:
  EarlyCall(coordination::Coordination& coordination, const CollectiveCall& call);

  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool wakes_waiter() const override { return is_agreed_ || agreement_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override;

 private:
  /// What one rank sends here.
  struct Incoming {
    int from;
    std::byte* to;
    std::size_t arrived = 0;  ///< bytes
  };
  void post();
  std::byte* block_of(const TensorView& buffer, int rank) const;
  void take_parts();
  void hand_out();
  bool is_complete() const;
  Incoming* incoming_from(int rank);

  coordination::Coordination& coordination_;
  const CollectiveCall& call_;
  std::size_t block_;  ///< bytes
  std::unique_ptr<Task> agreement_;
  std::uint64_t number_;
  std::vector<Incoming> incoming_;
  std::vector<coordination::EarlyMail::Part> parts_;
  bool has_begun_ = false, is_agreed_ = false, is_done_ = false;
};

}  // namespace unisono::schedule

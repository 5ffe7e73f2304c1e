#pragma once

#include <memory>

#include "base/notifier.h"
#include "engines/shm/lockstep.h"
#include "engines/shm/message_ring.h"
#include "engines/shm/segment.h"
#include "unisono/engine.h"

namespace unisono::engines::shm {

/// Makes a task for any collective. The task keeps its own copy of the call.
std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call);

/// The engine of the ranks of one host, on a segment of memory that all of them reach. The ranks compare their calls in the first step of each.
class ShmEngine final : public Engine {
 public:
  /// `is_crowded`: there are more ranks than processors.
  ShmEngine(std::shared_ptr<Segment> segment, int rank, bool is_crowded);
  ~ShmEngine() override;

  std::string_view name() const noexcept override { return "native"; }
  bool compares_calls() const noexcept override { return true; }
  bool offers(const CollectiveCall&) const override { return true; }
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  void carry_out(const CollectiveCall& call, Waiter& waiter) override;
  /// The failure record of the segment ends pending calls.
  void abort(const Failure&) noexcept override {}

  /// Compares the next call of all ranks; nothing is moved. Returns true where all ranks have come with the flag set; those that come by
  /// `start_agreement` have it unset.
  bool agree(const CollectiveCall& call, Waiter& waiter, bool flag);
  std::unique_ptr<Task> start_agreement(const CollectiveCall& call);

  MessageRing& messages() { return messages_; }
  Segment& segment() { return *segment_; }
  const std::shared_ptr<Segment>& shared_segment() const { return segment_; }
  Lockstep& lockstep() { return lockstep_; }
  bool is_crowded() const { return is_crowded_; }
  /// Returns the ranks of this host as they wait for each other. Any thread may use it.
  base::Neighbours& neighbours() { return neighbours_; }

 private:
  std::shared_ptr<Segment> segment_;
  Lockstep lockstep_;
  MessageRing messages_;
  base::Neighbours neighbours_;
  bool is_crowded_;
};

}  // namespace unisono::engines::shm

#pragma once

#include <memory>

#include "engines/host_engine.h"
#include "base/notifier.h"
#include "engines/shm/lockstep.h"
#include "engines/shm/message_ring.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Makes a task for any collective. The task keeps its own copy of the call.
std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call);

/// The engine of the ranks of one host, on a segment of memory that all of them reach. The ranks compare their calls in the first step of each.
class ShmEngine final : public HostEngine {
 public:
  /// `is_crowded`: there are more ranks than processors.
  ShmEngine(std::shared_ptr<Segment> segment, int rank, bool is_crowded);
  ~ShmEngine() override;

  std::string_view name() const noexcept override { return "native"; }
  bool compares_calls() const noexcept override { return true; }
  bool offers(const CollectiveCall& call) const override;
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  void carry_out(const CollectiveCall& call, Waiter& waiter) override;
  /// The failure record of the segment ends pending calls.
  void abort(const Failure&) noexcept override {}

  bool agree(const CollectiveCall& call, Waiter& waiter, bool flag) override;
  std::unique_ptr<Task> start_agreement(const CollectiveCall& call) override;
  MessageRing& messages() override { return messages_; }
  bool is_disputed() const override { return lockstep_.is_disputed(); }
  Segment& segment() { return *segment_; }
  Lockstep& lockstep() { return lockstep_; }

 private:
  std::shared_ptr<Segment> segment_;
  Lockstep lockstep_;
  MessageRing messages_;
};

}  // namespace unisono::engines::shm

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engines/shm/reached_pools.h"
#include "engines/shm/segment.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// Decides whether the ranks reach each other's buffers of a call where they lie, so that nothing is staged. Every rank announces where its own are
/// beside the first step of each large call, and what it reaches, and all draw the same conclusions:
///   Buffers in the shared pools of the processes: after an ordinary call whose buffers all lie there the ranks map each other's pools, and report
///   this in their next announcement. After a call in which all have reported it the next large call begins with an announcement alone: it is
///   expected to be direct. Where its buffers do not all lie in pools, the next one is not expected to be.
/// A call that begins so and cannot be direct is carried out as an ordinary one after that step.
class DirectAccess {
 public:
  DirectAccess(Segment& segment, int rank) : segment_(segment), pools_(segment, rank) {}

  /// Returns true where calls of this kind and size are announced: on all ranks alike, but for all_to_all_v.
  bool suits(const CollectiveCall& call) const;
  /// Returns true where the next large call is expected to have all of its buffers in pools.
  bool expected() const { return pools_.expected(); }
  /// Returns true where a call begins with an announcement alone.
  bool begins(const CollectiveCall& call) const { return call.operation != Operation::all_to_all_v && suits(call) && expected(); }
  /// Returns true where the others read what this rank gives them in an all_to_all_v where it lies.
  bool leaves_in_buffer(const CollectiveCall& call) const;
  Announcement announce(const CollectiveCall& call);
  /// Called after a step in which every rank may have announced. Does nothing where one has not.
  void note(std::uint32_t step);
  /// Called in a call that began with an announcement alone; returns true where it is direct.
  bool agreed(std::uint32_t step) const { return pools_.reach_all(step); }

  /// Return where a rank's buffers of such a call lie here; null where one is empty.
  const std::byte* in(int rank, std::uint32_t step) const { return pools_.source(rank, step, segment_.line(rank, step).announcement().in); }
  const std::byte* out(int rank, std::uint32_t step) const { return pools_.source(rank, step, segment_.line(rank, step).announcement().out); }
  /// A rank that gives up a call records the failure first, and may then use its memory for other data at once. So what was read of its buffers is
  /// valid if this returns true afterwards. Once this rank has published that, the call cannot fail for it any more.
  bool holds() const {
#if !defined(__SANITIZE_THREAD__)                         // the thread sanitizer does not support fences
    std::atomic_thread_fence(std::memory_order_acquire);  // litmus: failure-read-fence. The data was read before the failure is looked up
#endif
    return segment_.failure().state.load(std::memory_order_acquire) == 0;  // litmus: failure-none
  }

 private:
  static constexpr std::size_t least_bytes = std::size_t{4} << 10;  // a smaller call gains nothing by it

  Segment& segment_;
  ReachedPools pools_;
};

}  // namespace unisono::engines::shm

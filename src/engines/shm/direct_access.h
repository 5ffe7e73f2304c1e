#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engines/shm/segment.h"
#include "base/shared_pool.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// Decides whether all ranks can reach each other's buffers of a call, which must lie in the shared pools of their processes. Every rank announces
/// its own beside the first step of each large call, and all draw the same conclusion:
///   after an ordinary call whose buffers all lie in pools, the ranks map each other's pools, and report this in their next announcement;
///   after a call in which all have reported this, the next large call begins with an announcement alone: it is expected to be direct;
///   a direct call whose buffers do not all lie in pools is carried out as an ordinary one after that step, and the next one is not expected to be
/// direct.
class DirectAccess {
 public:
  DirectAccess(Segment& segment, int rank) : segment_(segment), rank_(rank), bases_(static_cast<std::size_t>(segment.ranks())) {}

  /// Returns true where calls of this kind and size are announced.
  static bool suits(const CollectiveCall& call) {
    return call.operation >= Operation::all_reduce && call.operation <= Operation::all_to_all && call.count * size_of(call.in.dtype()) >= least_bytes;
  }
  bool expected() const { return expected_; }
  Announcement announce(const CollectiveCall& call);
  /// Called after a step in which every rank has announced.
  void note(std::uint32_t step);
  /// Called in a call that was expected to be direct; returns true where it is.
  bool agreed(std::uint32_t step);

  const std::byte* in(int rank, std::uint32_t step) const { return base(rank) + (segment_.line(rank, step).announcement().in - 1); }
  const std::byte* out(int rank, std::uint32_t step) const { return base(rank) + (segment_.line(rank, step).announcement().out - 1); }

 private:
  static constexpr std::size_t least_bytes = std::size_t{4} << 10;  // a smaller call gains nothing by it

  bool all_in_pools(std::uint32_t step) const;
  bool all_reach_all(std::uint32_t step) const;
  bool map_all();
  const std::byte* base(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }

  Segment& segment_;
  int rank_;
  std::vector<const std::byte*> bases_;  // of the ranks' pools, once all are reached
  std::vector<std::shared_ptr<const base::MappedPool>> mapped_;
  bool expected_ = false;
  bool tried_ = false;
  bool reaches_all_ = false;
};

}  // namespace unisono::engines::shm

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/shared_pool.h"
#include "engines/shm/segment.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// Returns true where the buffers of a call lie in the shared pool of this process. An empty one lies anywhere.
bool lie_in_pool(const CollectiveCall& call);

/// The shared pools of the other ranks' processes, which a rank maps once the buffers of a call have all lain in pools. See DirectAccess.
class ReachedPools {
 public:
  ReachedPools(Segment& segment, int rank) : segment_(segment), rank_(rank), pools_(static_cast<std::size_t>(segment.ranks())) {}

  /// Returns true where the next large call is expected to have all of its buffers in pools.
  bool expected() const { return expected_; }
  /// Returns true where a rank may leave the buffers of a call in its pool: all ranks have reported that they have mapped all pools.
  bool reach(const CollectiveCall& call) const { return all_map_ && lie_in_pool(call); }
  void announce(const CollectiveCall& call, Announcement& announcement) const;
  /// Returns true where the buffers of a call that was announced all lie in pools that all ranks have mapped.
  bool reach_all(std::uint32_t step) const;
  /// Called after a step in which all ranks have announced.
  void note(std::uint32_t step);
  /// Returns where a rank's buffer lies here that begins at an address of its process. Null if it is empty and lies in no pool.
  const std::byte* source(int rank, std::uint32_t step, std::uint64_t address) const;

 private:
  bool map_all();

  Segment& segment_;
  int rank_;
  std::vector<const std::byte*> pools_;  // of the ranks, where they are mapped here; all or none
  std::vector<std::shared_ptr<const base::MappedPool>> mapped_;
  bool expected_ = false;
  bool all_map_ = false;  // as all have reported
  bool tried_to_map_ = false, maps_all_ = false;
};

}  // namespace unisono::engines::shm

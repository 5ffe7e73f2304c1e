#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "coordination/endings.h"
#include "engines/host_engine.h"
#include "unisono/detail/switches.h"
#include "unisono/failure.h"

namespace unisono::coordination {

/// The processes of a host's ranks: it finds the dead, departed and stopped ones. It asks the kernel, so it needs no thread and no heartbeat.
class Peers {
 public:
  /// `world_ranks`: of the ranks of the host; empty: not known. `recorded`: by the launcher, of the same.
  Peers(std::shared_ptr<engines::HostMemory> memory, int rank, std::vector<int> world_ranks = {}, RecordedEndings recorded = {});

  /// Records that this rank is present. It is called before any rank waits for it.
  void arrive(pid_t pid);
  /// Opens a handle on every other process. All must have arrived.
  void watch();
  void leave(Leaving how);

  /// Finds a peer that died before it left, or a rank of `waiting_for` that has become another program, or has been stopped for too long.
  /// `patience`: with one that is stopped.
  std::optional<Failure> look(std::span<const int> waiting_for, std::chrono::milliseconds patience);
  /// Looks at all other ranks. Those that have left have done their part and are no failure.
  std::optional<Failure> look_at_all(std::chrono::milliseconds patience) { return look(others_, patience); }
  /// Looks at these ranks. Those that have left are no failure.
  std::optional<Failure> look_at(std::span<const int> ranks);
  /// Returns the failure of a rank that has left, for a rank that waits for it. None while the end of its process may still tell more.
  std::optional<Failure> failure_of_left_rank(int rank) {
    const std::lock_guard lock(mutex_);
    return failure_of_left(rank);
  }
  bool has_left(int rank) const { return left(rank).has_value(); }
  /// Returns the process of a rank.
  pid_t process_of(int rank) const { return memory_->process(rank).pid.load(std::memory_order_relaxed); }
  /// Returns the ranks whose processes are dead, or that have left.
  std::vector<int> gone();
  /// Returns how many processors the ranks have together. Ranks that are bound to one each share none.
  int processors() const;

 private:
  struct Peer {
    std::shared_ptr<const base::FileDescriptor> handle;
    int descriptor() const { return handle ? handle->get() : -1; }
    std::optional<base::Clock::time_point> stopped_since, left_since;  // when a look first found it so
    bool warned = false;
  };
  std::optional<Leaving> left(int rank) const;
  std::string name(int rank) const;
  Failure failure_of_end(int rank, const Ending& ending) const;
  std::optional<Failure> failure_of_left(int rank);
  std::optional<Failure> dead(std::span<const int> ranks);
  std::optional<Failure> replaced(int rank, std::uint64_t program) const;
  std::optional<Failure> stopped(std::span<const int> waiting_for, std::chrono::milliseconds silent_after);
  std::optional<Ending> ending_of(int rank) const;

  std::shared_ptr<engines::HostMemory> memory_;
  int rank_;
  std::vector<int> world_ranks_;
  RecordedEndings recorded_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  base::Clock::time_point next_state_check_{};
  std::vector<int> others_;  // all ranks but this one
};

}  // namespace unisono::coordination

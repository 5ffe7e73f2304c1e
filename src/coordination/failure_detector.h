#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "coordination/coordination_parts.h"
#include "unisono/detail/switches.h"
#include "unisono/failure.h"

namespace unisono::coordination {

/// Finds the ranks of a group that are dead, have left, or are silent: those of this host by their processes, those of other hosts by their
/// connections and by what they have said. Any thread may call.
class FailureDetector {
 public:
  explicit FailureDetector(const CoordinationParts& parts) : parts_(parts), topology_(parts.topology) {}

  /// Looks for dead peers, and for ranks of `waiting_for` that have left, or been silent for longer than `patience`: stopped, or cut off. Makes
  /// system calls. With `any_will_do`, one present rank of `waiting_for` is enough.
  std::optional<Failure> look(std::span<const int> waiting_for, bool any_will_do, std::chrono::milliseconds patience);
  /// Finds a rank among these that is dead or has been stopped for too long, even where the group is over. Ranks that have left do not count.
  std::optional<Failure> look_at(std::span<const int> ranks);
  /// Returns the ranks whose processes are known to be dead or to have left, ascending.
  std::vector<int> gone();
  /// Returns the process of a rank of this host; nothing where ranks are threads, and for ranks of other hosts.
  std::optional<pid_t> process_of(int rank) const;

  /// Notes that the ranks have agreed on the current call: those that leave from then on have done their part.
  void set_agreed(bool agreed) { agreed_.store(agreed, std::memory_order_release); }
  /// Notes that a rank of another host has left, after so many agreements.
  void take_leaving(int rank, std::uint64_t agreements, Leaving how);
  bool has_left_after(int rank, std::uint64_t agreement) const;

 private:
  /// The last notice of a rank of another host that has left.
  struct Left {
    std::uint64_t agreements = 0;  ///< the number of its last one
    Leaving how = Leaving::in_order;
    base::Clock::time_point at = base::Clock::now();
  };
  std::vector<int> locals_of(std::span<const int> ranks) const;
  std::optional<Failure> silent_peer(std::span<const int> waiting_for, std::chrono::milliseconds patience) const;
  std::optional<Failure> failure_of_left(int rank);
  std::optional<Failure> lost_peers() const;
  std::optional<Failure> lost_peer(int rank) const;
  bool has_left(int rank) const;
  bool is_agreed() const { return agreed_.load(std::memory_order_acquire); }

  const CoordinationParts& parts_;
  const GroupTopology& topology_;
  std::atomic<bool> agreed_{false};
  mutable std::mutex mutex_;  ///< guards the ranks that have left
  std::map<int, Left> left_;
};

/// Returns how long a rank may be silent where a call has waited for so long and has so much time in all. That is silence_limit(); towards the end of
/// the call's time it is half of that time, because the rank will not come before the deadline, and is known to be silent and not late.
std::chrono::milliseconds patience_of_call(std::chrono::nanoseconds elapsed, std::chrono::milliseconds timeout);

}  // namespace unisono::coordination

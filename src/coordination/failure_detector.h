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

// From a death to an exception. Ranks 0 and 1 are on host A, 2 and 3 on host B; all four are in an all_reduce when rank 3 is killed.
//
//   rank 2, host B   waits in shared memory. Its WaitCheck calls `look`, which asks for the processes of its host (`Peers::look`): the pidfd of
//                    rank 3 is readable. Failure{cause = killed, culprit = 3}
//   rank 0, host A   the system of host B has closed rank 3's sockets. Connections::pump reads the end of the stream without a goodbye, so
//                    Peer::lose fails the transfers that wait for rank 3, and Link::lost returns Loss{peer = 3, cause = disconnected}.
//                    `lost_peers` makes a Failure{cause = disconnected, culprit = 3} of it
//   rank 1, host A   the same; if host B had lost its power or its network, no end would come: no heartbeat within silence_limit() is
//                    Loss{cause = silent}, and `silent_peer` knows sooner near a call's deadline
//
// A Failure is a finding of one rank. Coordination::poison records it (FailureState::record: the ranks of the host see it in their segment and wake)
// and announces it to the ranks of other hosts. The first one counts: rank 2 knows more than rank 0, and whichever record is first is what every rank
// of that host throws. An announced failure counts 20 ms later (FailureState::read), since data that was sent before it may still arrive.
//
// An engine's own exception ("the connection was reset") says what happened and not why. FailureAttribution holds it back until `look` has found the
// lost rank, or its grace is over. GroupErrors::error_of then makes the exception: PeerFailed{culprit = 3, cause}, with the call's name and number,
// on ranks 0, 1 and 2. Later calls of the group throw the same at once, and shrink_group makes a group of the three.
//
// Three signals are kept apart: dead (a pidfd, the end of a connection: at once), silent (no heartbeat: seconds), and no progress (a call's deadline:
// Timeout, which blames the ranks that are waited for, and is no death).

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

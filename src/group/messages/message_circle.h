#pragma once

#include <chrono>
#include <string>

namespace unisono::group {

class GroupErrors;

// Ranks that wait for each other's messages, which may be on several hosts. A rank reads the waits of the ranks of its host in their records. Where
// they lead to another host, it sends the chain of them to the rank there, which does the same and sends it on. A chain that comes back to the rank
// that began it is a circle: no wait of it can end. Example, with ranks 0 and 1 on one host, 2 and 3 on another, and each sends to the next one:
//
//   rank 0 reads 0→1, 1→2 and sends that to rank 2; rank 2 adds 2→3, 3→0 and sends all to rank 0, which knows the circle.
//   rank 1 reads 1→2 and sends that to rank 2; rank 2 adds 2→3, 3→0 and sends all to rank 1, because rank 0 is on the host of rank 1, which adds 0→1.

/// Sends on the chains that have come to this rank, and its own one from time to time, while it waits in a call for so long. Makes system calls.
void follow_waits(GroupErrors& group, std::chrono::nanoseconds elapsed, std::chrono::nanoseconds timeout);

/// Returns the circle of messages in which this rank waits, as a sentence with advice, as far as it is known; empty: there is none. Makes system
/// calls.
std::string circle_of(GroupErrors& group);

}  // namespace unisono::group

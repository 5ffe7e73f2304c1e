#pragma once

#include <optional>
#include <span>
#include <string>

#include "context/state.h"
#include "rendezvous/rendezvous.h"

namespace unisono::context {

/// Derives the topology from what each rank reported when it joined, without further communication. `members` is indexed by rank.
Topology topology_of(std::span<const rendezvous::Member> members, int rank);
/// Returns the topology of a rank that is a thread: all ranks are in one process.
Topology topology_of_threads(int rank, int world_size);

/// Returns what the user or the launcher gave, else the hint, else what the exchange of reports found. Warns of a contradiction.
int choose_local_rank(std::optional<int> given, std::optional<int> hint, const Topology& topology);

/// Returns text such as "a (ranks 0, 1), b (rank 2)".
std::string describe_hosts(const Topology& topology);

}  // namespace unisono::context

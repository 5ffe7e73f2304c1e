#pragma once

#include <optional>
#include <span>
#include <string>

#include "context/state.h"
#include "rendezvous/rendezvous.h"

namespace unisono::context {

/// Where the ranks are, by what each of them said of itself when it joined: nothing is asked for a second time. `members`: by rank.
Topology topology_of(std::span<const rendezvous::Member> members, int rank);
/// Of a rank that is a thread: all are in this process.
Topology topology_of_threads(int rank, int world_size);

/// What the user or the launcher says, else the hint, else what the exchange found. A contradiction is warned of.
int choose_local_rank(std::optional<int> given, std::optional<int> hint, const Topology& topology);

/// "a (ranks 0, 1), b (rank 2)"
std::string describe_hosts(const Topology& topology);

}  // namespace unisono::context

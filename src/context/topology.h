#pragma once

#include <optional>
#include <string>

#include "context/state.h"
#include "ground/deadline.h"
#include "unisono/store.h"

namespace unisono::context {

std::string host_name();

/// What makes two processes neighbours that can share memory and see each other: the same boot of the same kernel, network and process namespaces.
std::string host_identity();

/// What a rank says of its host. `machine` and `identity` differ only where a test has it present itself as being elsewhere.
struct HostRecord {
  std::string machine;
  std::string identity;
  std::string name;
};

/// Every rank says where it is and learns where the others are. Collective over the world.
Topology exchange_hosts(Store& store, int rank, int world_size, const ground::Deadline& deadline);
/// The same from a list, by global rank.
Topology topology_of(const std::vector<HostRecord>& hosts, int rank);
/// Of a rank that is a thread: all are in this process.
Topology topology_of_threads(int rank, int world_size);

/// What the user or the launcher says, else the hint, else what the exchange found. A contradiction is warned of.
int choose_local_rank(std::optional<int> given, std::optional<int> hint, const Topology& topology);

/// "a (ranks 0, 1), b (rank 2)"
std::string describe_hosts(const Topology& topology);

}  // namespace unisono::context

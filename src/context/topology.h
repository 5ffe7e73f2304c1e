#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/repeated_texts.h"
#include "rendezvous/rendezvous.h"

namespace unisono::context {

/// Says which process runs where, from what every rank reports of its host.
struct Topology {
  int local_rank = 0;
  int nproc_per_node = 1;
  int nnodes = 1;
  int node_rank = 0;
  int ranks_under_kernel = 1;         // that share this rank's processors, whatever network and PID namespaces they are in
  int processors = 1;                 // that they have together; ranks that are bound to one each have as many as they are
  int machines = 1;                   // real hosts; nnodes counts them as ranks present themselves, which differs in tests only
  base::RepeatedTexts host_names{};   // by global rank
  std::vector<int> hosts{};           // by global rank: the number of its host, in the order of each host's lowest rank
  std::vector<int> local_members{0};  // global ranks of this host's processes

  /// Returns what the user or the launcher gave, else the hint, else what the exchange of reports found. Warns of a contradiction.
  /// If ranks present themselves as of other hosts, it returns what the exchange found.
  int choose_local_rank(std::optional<int> given, std::optional<int> hint) const;
  /// Returns text such as "a (rank 0, 1); b (rank 2)".
  std::string describe_hosts() const;
};

/// Derives the topology from what each rank reported when it joined, without further communication. `members` is indexed by rank.
Topology topology_of(std::span<const rendezvous::Member> members, int rank);
/// Returns the topology of a rank that is a thread: all ranks are in one process.
Topology topology_of_threads(int rank, int world_size);

}  // namespace unisono::context

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/notifier.h"
#include "base/printable.h"
#include "coordination/endings.h"
#include "coordination/group_topology.h"
#include "coordination/peers.h"
#include "coordination/whereabouts.h"
#include "engines/host_engine.h"
#include "transport/tcp/link.h"

namespace unisono::coordination {

/// The ranks of one host: the engine by which they agree, and their processes.
struct HostRanks {
  std::shared_ptr<engines::HostEngine> engine;
  std::unique_ptr<Peers> peers;
};

/// The parts of a group that decide whether its calls may go on.
struct CoordinationParts {
  std::string key;                ///< equal on all members, and different from that of any other group
  std::vector<int> global_ranks;  ///< of the members, in group order
  GroupTopology topology;
  HostRanks host = {};                            ///< the ranks of this host; empty where this rank is alone there
  std::shared_ptr<transport::Link> link = {};     ///< connects the ranks of other hosts, or all that an engine connects; null where there is none
  bool owns_link = false;                         ///< the link ends with this group
  double crowding = 1;                            ///< the ranks of this and of other hosts for each processor that they share
  std::shared_ptr<Whereabouts> whereabouts = {};  ///< of all groups of the process; null: the first one
  std::shared_ptr<base::Notifier> notifier = {};  ///< of a rank that is alone on its host; null: the host's
  RecordedEndings recorded = {};                  ///< by the launcher, of the members

  bool is_one_host() const { return topology.host_count() == 1; }
  /// Returns the rank in the world of a rank of the group.
  int global(int rank) const { return global_ranks[static_cast<std::size_t>(rank)]; }
  /// Names a rank for errors, with its rank in the world where that is another one.
  std::string name(int rank) const { return base::name_rank(rank, global(rank)); }
};

}  // namespace unisono::coordination

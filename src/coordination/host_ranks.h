#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "coordination/coordination.h"

namespace unisono::coordination {

/// Options of the ranks of a host that are processes; they join collectively, through their store.
struct HostOptions {
  std::string group_name = {};
  int rank = 0;  ///< among the ranks of the host
  std::vector<int> global_ranks = {};
  std::vector<int> names = {};             ///< of the ranks in errors, where these differ from their ranks here
  std::shared_ptr<Store> store = {};       ///< of these ranks, under a prefix
  std::shared_ptr<Store> job_store = {};   ///< the launcher's, where it records how processes ended; may be null
  std::vector<std::string> launched = {};  ///< the launcher's names for these processes, where there is a `job_store`
  /// the world, whose notifiers are used again, so that a process sleeps in one place whatever it waits for; null: it is being made
  std::shared_ptr<Coordination> world = {};
  std::chrono::milliseconds timeout{};
};
/// Joins the ranks of a host that are processes.
HostRanks join_host(const HostOptions& options);
/// Makes the ranks of a host that are threads of this process, on memory that they share.
HostRanks host_of_threads(const std::shared_ptr<engines::HostMemory>& memory, int rank, int cpus, const std::vector<int>& global_ranks);
/// Returns the notifiers of these ranks of the world; empty where one is not known.
std::vector<base::Notifier*> notifiers_of(Coordination& world, const std::vector<int>& global_ranks);

}  // namespace unisono::coordination

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/environment.h"
#include "unisono/launcher.h"

namespace unisono::rendezvous {

/// A number from the environment, and the variable that holds it.
struct Given {
  int value = 0;
  std::string variable;
};

/// The meeting address of Slurm's tasks, unless MASTER_ADDR and MASTER_PORT give one.
struct SlurmPlace {
  std::string host;
  std::uint16_t port = 0;
  bool one_node = false;  ///< all tasks are on this host, so no other host needs its address
};

/// The identity of this process, by its launcher.
struct EnvironmentIdentity {
  Launcher launcher = Launcher::none;
  std::optional<Given> rank, world_size, local_rank, local_world_size, node_rank;
  std::string rank_variable, world_size_variable;  ///< the variables that would hold them, for messages about missing ones
  std::string job_id;                              ///< empty where the launcher names none
  int attempt = 0;                                 ///< counted from 0, where the launcher restarts jobs
  std::optional<SlurmPlace> slurm;
};

Launcher infer_launcher(const base::Environment& environment);

/// Returns true where the environment names more than one process, so that none may work alone before initialize.
bool launched_as_many(const base::Environment& environment);

/// Reads the identity. Throws InvalidArgument where a variable holds no number, where a Slurm task lacks a variable, or where two launchers that both
/// started this very process contradict each other.
EnvironmentIdentity identity_from_environment(const base::Environment& environment);

/// Returns the place among this host's processes that the environment gives to rank `rank` of `world_size`, however they meet: LOCAL_RANK, else the
/// local rank of a launcher that started this very process as that rank.
std::optional<int> local_rank_from_environment(const base::Environment& environment, int rank, int world_size);

}  // namespace unisono::rendezvous

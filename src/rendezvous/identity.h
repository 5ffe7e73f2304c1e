#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/environment.h"
#include "unisono/launcher.h"

namespace unisono::rendezvous {

/// A number that the environment gives, and the variable that gave it.
struct Given {
  int value = 0;
  std::string variable;
};

/// Where Slurm's tasks meet unless MASTER_ADDR and MASTER_PORT say it.
struct SlurmPlace {
  std::string host;
  std::uint16_t port = 0;
  bool one_node = false;  ///< all tasks are on this host: no address of it need be known to anybody else
};

/// Who this process is, as its launcher says.
struct EnvironmentIdentity {
  Launcher launcher = Launcher::none;
  std::optional<Given> rank, world_size, local_rank, local_world_size, node_rank;
  std::string rank_variable, world_size_variable;  ///< what would give them, for messages about what is missing
  std::string job_id;                              ///< empty where the launcher names none
  int attempt = 0;                                 ///< counted from 0, where the launcher restarts jobs
  std::optional<SlurmPlace> slurm;
};

Launcher infer_launcher(const base::Environment& environment);

/// True where the environment names more than one process: then nobody may work alone before initialize.
bool launched_as_many(const base::Environment& environment);

/// InvalidArgument where a number is none, where a Slurm task lacks a variable, or where two launchers that both started this very process
/// contradict each other (R9).
EnvironmentIdentity identity_from_environment(const base::Environment& environment);

/// The place among this host's processes that the environment gives to rank `rank` of `world_size`, whatever way they meet: LOCAL_RANK, else the
/// local rank of a launcher that started this very process as that rank.
std::optional<int> local_rank_from_environment(const base::Environment& environment, int rank, int world_size);

}  // namespace unisono::rendezvous

// Who we are, from the variables of whoever started us: a table with one row per launcher.
#include "rendezvous/identity.h"

#include <array>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono {

std::string_view to_string(Launcher launcher) noexcept {
  switch (launcher) {
    case Launcher::none: return "none";
    case Launcher::unisono: return "unisono";
    case Launcher::torchrun: return "torchrun";
    case Launcher::slurm: return "slurm";
    case Launcher::openmpi: return "openmpi";
    case Launcher::pmi: return "pmi";
    case Launcher::horovod: return "horovod";
  }
  return "unknown";
}

}  // namespace unisono

namespace unisono::rendezvous {
namespace {

using ground::Environment;

/// The names one launcher gives to the same things; empty: it does not say.
struct Row {
  Launcher launcher;
  std::array<std::string_view, 2> marks;  ///< all of them are set in its processes
  std::string_view rank, world_size, local_rank, local_world_size, node_rank;
};

// In the order of trust: an inner launcher's variables come with the outer one's (a torchrun inside srun sees SLURM_PROCID of the outer task).
constexpr std::array rows = {
    Row{Launcher::unisono, {"UNISONO_LAUNCHER_FD"}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},
    Row{Launcher::unisono, {"UNISONO_JOB_ID"}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},
    Row{Launcher::torchrun, {"TORCHELASTIC_RUN_ID"}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},
    Row{Launcher::torchrun, {"RANK", "WORLD_SIZE"}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},
    Row{Launcher::openmpi,
        {"OMPI_COMM_WORLD_RANK"},
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        {}},
    Row{Launcher::openmpi, {"OMPI_COMM_WORLD_LOCAL_RANK"}, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", {}, {}},
    Row{Launcher::pmi, {"PMI_RANK"}, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {}},
    Row{Launcher::pmi, {"PMIX_RANK"}, "PMIX_RANK", {}, {}, {}, {}},
    Row{Launcher::slurm, {"SLURM_PROCID", "SLURM_NTASKS"}, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", {}, "SLURM_NODEID"},
    Row{Launcher::slurm, {"SLURM_NTASKS"}, {}, {}, {}, {}, {}},  // inside an allocation, but no task of it
    Row{Launcher::horovod, {"HOROVOD_RANK"}, "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK"},
    Row{Launcher::torchrun, {"WORLD_SIZE"}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},  // half set: env:// says what is
                                                                                                                    // missing
    Row{Launcher::torchrun, {"RANK"}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},
};

constexpr Row nobody{Launcher::none, {}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"};

bool applies(const Row& row, const Environment& environment) {
  for (const std::string_view mark : row.marks) {
    if (!mark.empty() && !environment.has(mark)) return false;
  }
  return true;
}

const Row& row_of(const Environment& environment) {
  for (const Row& row : rows) {
    if (applies(row, environment)) return row;
  }
  return nobody;
}

std::optional<Given> read(const Environment& environment, std::string_view variable) {
  if (variable.empty()) return std::nullopt;
  const auto value = environment.get_int(variable);
  return value ? std::optional(Given{*value, std::string(variable)}) : std::nullopt;
}

// RANK, WORLD_SIZE and LOCAL_RANK together prove an inner launcher: what the outer one says is about another process.
bool is_inner(const Environment& environment) { return environment.has("RANK") && environment.has("WORLD_SIZE") && environment.has("LOCAL_RANK"); }

void compare(const std::optional<Given>& ours, const std::optional<Given>& theirs, std::string_view what) {
  if (!ours || !theirs || ours->value == theirs->value) return;
  throw InvalidArgument(fmt::format("the {} is {} by {}, but {} by {}", what, ours->value, ours->variable, theirs->value, theirs->variable),
                        {.hint = fmt::format("unset the variables of the launcher that is not meant")});
}

}  // namespace

Launcher infer_launcher(const Environment& environment) { return row_of(environment).launcher; }

bool launched_as_many(const Environment& environment) {
  const auto world_size = read(environment, row_of(environment).world_size);
  return world_size && world_size->value > 1;
}

EnvironmentIdentity identity_from_environment(const Environment& environment) {
  const Row& row = row_of(environment);
  EnvironmentIdentity identity;
  identity.launcher = row.launcher;
  identity.rank = read(environment, row.rank);
  identity.world_size = read(environment, row.world_size);
  identity.local_rank = read(environment, row.local_rank);
  identity.local_world_size = read(environment, row.local_world_size);
  identity.node_rank = read(environment, row.node_rank);
  identity.rank_variable = row.rank.empty() ? "RANK" : row.rank;
  identity.world_size_variable = row.world_size.empty() ? "WORLD_SIZE" : row.world_size;
  if (const auto id = environment.get("UNISONO_JOB_ID")) {
    identity.job_id = *id;
    identity.attempt = environment.get_int("UNISONO_ATTEMPT").value_or(0);
  } else if (const auto run = environment.get("TORCHELASTIC_RUN_ID")) {
    identity.job_id = *run;
    identity.attempt = environment.get_int("TORCHELASTIC_RESTART_COUNT").value_or(0);
  }
  if (!is_inner(environment)) {
    for (const Row& other : rows) {
      if (!applies(other, environment) || other.rank == row.rank) continue;
      compare(identity.rank, read(environment, other.rank), "rank");
      compare(identity.world_size, read(environment, other.world_size), "world size");
    }
  }
  return identity;
}

}  // namespace unisono::rendezvous

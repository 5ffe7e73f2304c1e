// The table of the variables in which each launcher gives rank, size and the like.
#include "rendezvous/launchers.h"

#include <algorithm>

#include "base/variables.h"

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

constexpr LauncherRow torch_like(Launcher launcher, std::array<std::string_view, 2> marks) {
  return {launcher, marks, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"};
}

constexpr std::array rows = {
    torch_like(Launcher::unisono, {"UNISONO_LAUNCHER_FD"}),
    torch_like(Launcher::unisono, {"UNISONO_JOB_ID"}),
    torch_like(Launcher::torchrun, {"TORCHELASTIC_RUN_ID"}),
    torch_like(Launcher::torchrun, {"RANK", "WORLD_SIZE"}),
    LauncherRow{Launcher::openmpi,
                {"OMPI_COMM_WORLD_RANK"},
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                {}},
    LauncherRow{Launcher::openmpi,
                {"OMPI_COMM_WORLD_LOCAL_RANK"},
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                {}},
    LauncherRow{Launcher::pmi,
                {"MV2_COMM_WORLD_RANK"},
                "MV2_COMM_WORLD_RANK",
                "MV2_COMM_WORLD_SIZE",
                "MV2_COMM_WORLD_LOCAL_RANK",
                "MV2_COMM_WORLD_LOCAL_SIZE",
                {}},
    LauncherRow{Launcher::pmi, {"PMI_RANK"}, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {}},
    LauncherRow{Launcher::pmi, {"PMIX_RANK"}, "PMIX_RANK", {}, {}, {}, {}},  // only its server knows the rest
    LauncherRow{Launcher::slurm, {"SLURM_PROCID", "SLURM_NTASKS"}, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", {}, "SLURM_NODEID"},
    LauncherRow{Launcher::slurm, {"SLURM_NTASKS"}, {}, {}, {}, {}, {}},  // inside an allocation, but no task of it
    LauncherRow{
        Launcher::horovod, {"HOROVOD_RANK"}, "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK"},
    // Half set, so the last ones to be used: a script that exports WORLD_SIZE for the processes that srun starts, or a mistake, which env:// reports.
    torch_like(Launcher::torchrun, {"WORLD_SIZE"}),
    torch_like(Launcher::torchrun, {"RANK"}),
};

/// The variables beside those of base/variables.h and of the rows.
constexpr std::array more_variables = {
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "SLURM_STEP_NODELIST",
    "SLURM_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NTASKS_PER_NODE",
    "JOB_COMPLETION_INDEX",
};

}  // namespace

std::span<const LauncherRow> launcher_rows() { return rows; }

bool applies(const LauncherRow& row, const base::Environment& environment) {
  return std::ranges::all_of(row.marks, [&](std::string_view mark) { return mark.empty() || environment.has(mark); });
}

bool is_complete(const LauncherRow& row, const base::Environment& environment) {
  const auto given = [&](std::string_view name) { return !name.empty() && environment.has(name); };
  return given(row.rank) && given(row.world_size) && given(row.local_rank);
}

std::vector<std::string_view> variables_read() {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const base::Variable& variable : base::variables()) add(variable.name);
  for (const LauncherRow& row : rows) {
    for (const std::string_view name : {row.rank, row.world_size, row.local_rank, row.local_world_size, row.node_rank}) add(name);
  }
  for (const std::string_view name : more_variables) add(name);
  return names;
}

}  // namespace unisono::rendezvous

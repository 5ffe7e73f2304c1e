// Determines the identity of this process from the variables of its launcher.
#include "rendezvous/identity.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/log.h"
#include "rendezvous/launchers.h"
#include "rendezvous/slurm.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Environment;

constexpr LauncherRow nobody{Launcher::none, {}, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"};
constexpr std::array torch_five = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

const LauncherRow& row_of(const Environment& environment) {
  for (const LauncherRow& row : launcher_rows()) {
    if (applies(row, environment)) return row;
  }
  return nobody;
}

std::optional<Given> read(const Environment& environment, std::string_view variable) {
  if (variable.empty()) return std::nullopt;
  const auto value = environment.get_int(variable);
  return value ? std::optional(Given{*value, std::string(variable)}) : std::nullopt;
}

void compare(const std::optional<Given>& ours, const std::optional<Given>& theirs, std::string_view what) {
  if (!ours || !theirs || ours->value == theirs->value) return;
  throw InvalidArgument(fmt::format("the {} is {} by {}, but {} by {}", what, ours->value, ours->variable, theirs->value, theirs->variable),
                        {.operation = "initialize", .hint = "unset the variables of the launcher that is not meant"});
}

/// Fills a gap from a later row.
void take_over(std::optional<Given>& ours, const std::optional<Given>& theirs) {
  if (!ours) ours = theirs;
}

void name_job(EnvironmentIdentity& identity, const Environment& environment) {
  if (const auto id = environment.get("UNISONO_JOB_ID")) {
    identity.job_id = *id;
    identity.attempt = environment.get_int("UNISONO_ATTEMPT").value_or(0);
  } else if (const auto run = environment.get("TORCHELASTIC_RUN_ID")) {
    identity.job_id = *run;
    identity.attempt = environment.get_int("TORCHELASTIC_RESTART_COUNT").value_or(0);
  }
}

EnvironmentIdentity identity_of_row(const LauncherRow& row, const Environment& environment) {
  EnvironmentIdentity identity;
  identity.launcher = row.launcher;
  identity.rank = read(environment, row.rank);
  identity.world_size = read(environment, row.world_size);
  identity.local_rank = read(environment, row.local_rank);
  identity.local_world_size = read(environment, row.local_world_size);
  identity.node_rank = read(environment, row.node_rank);
  identity.rank_variable = row.rank.empty() ? "RANK" : row.rank;
  identity.world_size_variable = row.world_size.empty() ? "WORLD_SIZE" : row.world_size;
  name_job(identity, environment);
  return identity;
}

/// Merges the rows that apply, until one of them proves that the rest is about an outer process. They must agree, and each fills the gaps of the
/// others.
EnvironmentIdentity merged_rows(const Environment& environment) {
  EnvironmentIdentity identity = identity_of_row(row_of(environment), environment);
  for (const LauncherRow& row : launcher_rows()) {
    if (!applies(row, environment)) continue;
    const EnvironmentIdentity other = identity_of_row(row, environment);
    compare(identity.rank, other.rank, "rank");
    compare(identity.world_size, other.world_size, "world size");
    take_over(identity.rank, other.rank);
    take_over(identity.world_size, other.world_size);
    take_over(identity.local_rank, other.local_rank);
    take_over(identity.local_world_size, other.local_world_size);
    take_over(identity.node_rank, other.node_rank);
    if (is_complete(row, environment)) break;
  }
  return identity;
}

/// Returns true inside a launcher that a task of Slurm has started: it marks its processes, or gives rank, world size and local rank in variables of
/// its own. RANK and the like alone do not count: they may be left over, or written by a container's hook.
bool is_inside_slurm_task(const Environment& environment) {
  return std::ranges::any_of(launcher_rows(), [&](const LauncherRow& row) {
    if (row.launcher == Launcher::slurm || row.launcher == Launcher::horovod || !applies(row, environment)) return false;
    if (row.rank == "RANK") return row.marks[0] != "RANK" && row.marks[0] != "WORLD_SIZE";
    return is_complete(row, environment);
  });
}

bool is_slurms(const Environment& environment) { return is_slurm_task(environment) && !is_inside_slurm_task(environment); }

bool has_torch_five(const Environment& environment) {
  return std::ranges::all_of(torch_five, [&](std::string_view name) { return environment.has(name); });
}

/// Checks RANK and the like, all five of them, against Slurm's variables. On one node a launcher within the task may have set them, which started
/// more processes. On several nodes they must repeat Slurm's numbers.
void check_against_slurm(const EnvironmentIdentity& identity, const SlurmTask& task) {
  const auto check = [&](const Given& given, int slurms, std::string_view variable) {
    if (task.nodes > 1 ? given.value == slurms : given.value >= slurms) return;
    throw InvalidArgument(fmt::format("{} contradicts {}: {} vs {}; {}", given.variable, variable, given.value, slurms,
                                      task.nodes > 1 ? "with several nodes they must be equal" : "it must be at least as large"),
                          {.operation = "initialize", .hint = "unset the variables of the launcher that is not meant"});
  };
  check(*identity.rank, task.rank, "SLURM_PROCID");
  check(*identity.local_rank, task.local_rank, "SLURM_LOCALID");
  check(*identity.world_size, task.world_size, "SLURM_NTASKS");
}

void warn_of_partial_variables(const Environment& environment) {
  std::string there, missing;
  for (const std::string_view name : torch_five) {
    std::string& list = environment.has(name) ? there : missing;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  }
  const bool any = environment.has("RANK") || environment.has("LOCAL_RANK") || environment.has("WORLD_SIZE");
  if (any)
    base::warn(fmt::format("{} set beside Slurm's variables, but not {}: rank, world size and local rank are taken from Slurm", there, missing));
}

void warn_of_batch_script(const Environment& environment, const SlurmTask& task) {
  const std::string advice = advice_for_batch_script(environment, task.world_size);
  if (advice.empty()) return;
  base::warn(fmt::format("this process waits for {} others, since SLURM_NTASKS is {}, and {}", task.world_size - 1, task.world_size, advice));
}

EnvironmentIdentity slurm_identity(const Environment& environment) {
  const SlurmTask task = slurm_task(environment);
  if (has_torch_five(environment)) {
    EnvironmentIdentity identity = identity_of_row(nobody, environment);
    check_against_slurm(identity, task);
    identity.launcher = Launcher::torchrun;
    return identity;
  }
  EnvironmentIdentity identity;
  identity.launcher = Launcher::slurm;
  identity.rank = Given{task.rank, "SLURM_PROCID"};
  identity.world_size = Given{task.world_size, "SLURM_NTASKS"};
  identity.local_rank = Given{task.local_rank, "SLURM_LOCALID"};
  identity.node_rank = read(environment, "SLURM_NODEID");
  identity.rank_variable = "SLURM_PROCID";
  identity.world_size_variable = "SLURM_NTASKS";
  identity.job_id = task.job;
  identity.attempt = task.attempt;
  identity.slurm = SlurmPlace{task.first_host, task.port, task.nodes == 1};
  const bool whole = environment.has("RANK") && environment.has("WORLD_SIZE");
  for (const LauncherRow& row : launcher_rows()) {
    if (!applies(row, environment) || (row.rank == "RANK" && !whole)) continue;
    compare(read(environment, row.rank), identity.rank, "rank");
    compare(read(environment, row.world_size), identity.world_size, "world size");
  }
  warn_of_partial_variables(environment);
  warn_of_batch_script(environment, task);
  return identity;
}

}  // namespace

Launcher infer_launcher(const Environment& environment) {
  if (is_slurms(environment)) return has_torch_five(environment) ? Launcher::torchrun : Launcher::slurm;
  return row_of(environment).launcher;
}

bool launched_as_many(const Environment& environment) {
  if (is_slurms(environment) && !has_torch_five(environment)) {
    return environment.has("SLURM_PROCID") && environment.get_int("SLURM_NTASKS").value_or(1) > 1;
  }
  for (const LauncherRow& row : launcher_rows()) {
    if (!applies(row, environment)) continue;
    if (const auto world_size = read(environment, row.world_size)) return world_size->value > 1;
  }
  return false;
}

EnvironmentIdentity identity_from_environment(const Environment& environment) {
  return is_slurms(environment) ? slurm_identity(environment) : merged_rows(environment);
}

std::optional<int> local_rank_from_environment(const Environment& environment, int rank, int world_size) {
  if (const auto said = environment.get_int("LOCAL_RANK")) return said;
  for (const LauncherRow& row : launcher_rows()) {
    if (row.rank == "RANK" || !applies(row, environment)) continue;
    const auto its_rank = read(environment, row.rank);
    const auto its_size = read(environment, row.world_size);
    const auto its_local = read(environment, row.local_rank);
    if (its_local && its_rank && its_size && its_rank->value == rank && its_size->value == world_size) return its_local->value;
  }
  return std::nullopt;
}

}  // namespace unisono::rendezvous

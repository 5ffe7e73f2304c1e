#include "rendezvous/slurm.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

#include <fmt/format.h>

#include "rendezvous/host_list.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Environment;

/// Slurm's numbers for the steps that are no step of srun in a script: those from here on are the batch script, the interactive shell, and the like.
constexpr std::string_view first_special_step = "4294967290";

/// Returns the first of the names that is set; empty: none.
std::string_view first_set(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (environment.has(name)) return name;
  }
  return {};
}

// The newer name comes first; a step may run on fewer nodes than its job has.
std::string_view job_id_variable(const Environment& environment) { return first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}); }
std::string_view node_list_variable(const Environment& environment) {
  return first_set(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
}
std::string_view node_count_variable(const Environment& environment) {
  return first_set(environment, {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
}

}  // namespace

bool is_step_of_srun(const Environment& environment) {
  const std::string step = environment.get("SLURM_STEP_ID").value_or("");
  if (step.size() >= first_special_step.size() && step >= first_special_step) return false;
  return environment.has("SLURM_STEP_NUM_NODES") || !step.empty();
}

std::string advice_for_batch_script(const Environment& environment, int world_size) {
  constexpr std::array of_launchers = {"UNISONO_LAUNCHER_FD", "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"};
  const bool is_launched = std::ranges::any_of(of_launchers, [&](const char* name) { return environment.has(name); });
  if (world_size == 1 || is_launched || is_step_of_srun(environment)) return {};
  if (environment.get("SLURM_PROCID") != "0" || environment.get("SLURM_NTASKS") != std::to_string(world_size)) return {};
  return "srun has not started this process (it is in no step of the job): if the script of sbatch runs the program itself, let it use `srun` or "
         "`unisono run`";
}

bool is_slurm_task(const Environment& environment) {
  if (job_id_variable(environment).empty()) return false;
  return environment.has("SLURM_PROCID") || environment.has("SLURM_LOCALID") || environment.get_int("SLURM_NTASKS").value_or(1) > 1;
}

SlurmTask slurm_task(const Environment& environment) {
  const std::string_view node_list = node_list_variable(environment);
  const std::string_view node_count = node_count_variable(environment);
  std::string missing;
  const auto need = [&](bool there, std::string_view name) {
    if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  };
  for (const std::string_view name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"}) need(environment.has(name), name);
  need(!node_list.empty(), "SLURM_JOB_NODELIST");
  need(!node_count.empty(), "SLURM_JOB_NUM_NODES");
  if (!missing.empty()) {
    throw InvalidArgument(
        fmt::format("this process is in Slurm job {}, and its environment has no {}", *environment.get(job_id_variable(environment)), missing),
        {.operation = "initialize", .hint = "start it with srun; to run alone in an allocation, unset SLURM_JOB_ID"});
  }
  SlurmTask task;
  task.rank = *environment.get_int("SLURM_PROCID");
  task.local_rank = *environment.get_int("SLURM_LOCALID");
  task.world_size = *environment.get_int("SLURM_NTASKS");
  task.nodes = *environment.get_int(node_count);
  const std::string id = *environment.get(job_id_variable(environment));
  task.port = slurm_port(id);
  task.job = fmt::format("slurm {}.{}", id, environment.get("SLURM_STEP_ID").value_or(""));
  task.attempt = environment.get_int("SLURM_RESTART_COUNT").value_or(0);
  const auto hosts = parse_host_list(*environment.get(node_list));
  if (hosts.empty()) throw InvalidArgument(fmt::format("{} names no host: \"{}\"", node_list, *environment.get(node_list)));
  task.first_host = hosts.front();
  return task;
}

std::uint16_t slurm_port(std::string_view job_id) {
  constexpr std::size_t digits_used = 4;  // of the job's number
  constexpr int first_port = 15000;

  std::size_t digits = 0;
  while (digits < job_id.size() && job_id[digits] >= '0' && job_id[digits] <= '9') ++digits;
  if (digits == 0) throw InvalidArgument(fmt::format("SLURM_JOB_ID begins with no number: \"{}\"", job_id), {.hint = "MASTER_PORT can say the port"});
  int last = 0;
  for (const char digit : job_id.substr(digits - std::min(digits, digits_used), std::min(digits, digits_used))) last = 10 * last + (digit - '0');
  return static_cast<std::uint16_t>(first_port + last);
}

}  // namespace unisono::rendezvous
